// Short messages about what was done, each with a way to undo it.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { errorText } from './api';
import { IconButton } from './icon';

/** How long a toast is shown. It stays while the pointer or the focus is on it. */
export const TOAST_MS = 10_000;
/** The oldest toast is closed when there are more. */
const TOASTS_MAX = 4;
/** The oldest action that can be undone is forgotten when there are more. */
const UNDO_MAX = 20;

export interface Toast {
  text: string;
  /** Reverts what was done. It stays possible after the toast is gone. */
  undo?: () => Promise<unknown>;
  /** What an undo without the toast reports. */
  undone?: string;
  /** Called when the time to undo has passed. Such an action cannot be undone later. */
  onExpire?: () => void;
  isError?: boolean;
}

type Shown = Toast & { id: number };

export const toasts = signal<Shown[]>([]);
let lastId = 0;

/** The actions of this visit that can be undone, oldest first. */
let undoable: Shown[] = [];

export function showToast(toast: Toast): void {
  const [oldest, ...others] = toasts.value;
  if (oldest && toasts.value.length >= TOASTS_MAX) {
    expire(oldest);
    toasts.value = others;
  }
  const shown = { ...toast, id: ++lastId };
  toasts.value = [...toasts.value, shown];
  if (toast.undo) undoable = [...undoable, shown].slice(-UNDO_MAX);
}

export const showError = (reason: unknown) => showToast({ text: errorText(reason), isError: true });

const close = (toast: Shown) =>
  (toasts.value = toasts.value.filter((other) => other.id !== toast.id));

const forget = (toast: Shown) => (undoable = undoable.filter((other) => other.id !== toast.id));

function expire(toast: Shown): void {
  close(toast);
  if (!toast.onExpire) return;
  forget(toast);
  toast.onExpire();
}

async function undo(toast: Shown): Promise<void> {
  const isShown = toasts.value.some((other) => other.id === toast.id);
  close(toast);
  forget(toast);
  try {
    await toast.undo?.();
    if (!isShown) showToast({ text: toast.undone ?? `Undone: ${toast.text}` });
  } catch (reason) {
    showError(reason);
  }
}

/** Undoes the newest action that can be undone, also after its toast is gone. */
export function undoNewest(): void {
  const newest = undoable.at(-1);
  if (newest) void undo(newest);
  else showToast({ text: 'Nothing to undo.' });
}

export function Toasts() {
  return (
    <section class="toasts" aria-label="Notifications" role="status">
      {toasts.value.map((toast) => (
        <ToastView key={toast.id} toast={toast} />
      ))}
    </section>
  );
}

function ToastView({ toast }: { toast: Shown }) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const start = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => expire(toast), TOAST_MS);
  };
  const stop = () => clearTimeout(timer.current);
  useEffect(() => {
    start();
    return stop;
  }, []);
  return (
    <div
      class={`toast ${toast.isError ? 'bad' : ''}`}
      onMouseEnter={stop}
      onMouseLeave={start}
      onFocusIn={stop}
      onFocusOut={start}
    >
      <p>{toast.text}</p>
      {toast.undo && (
        <button type="button" class="small" title="Undo (z)" onClick={() => void undo(toast)}>
          Undo
        </button>
      )}
      <IconButton icon="close" label="Dismiss" onClick={() => expire(toast)} />
    </div>
  );
}
