// Short messages about what was done, each with a way to undo it.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { errorText } from './api';
import { IconButton } from './icon';

/** How long a toast is shown. It stays while the pointer or the focus is on it. */
export const TOAST_MS = 10_000;
/** The oldest toast is closed when there are more. */
const TOASTS_MAX = 4;

export interface Toast {
  text: string;
  /** Reverts what was done. */
  undo?: () => Promise<unknown>;
  /** Called when the time to undo has passed. */
  onExpire?: () => void;
  isError?: boolean;
}

type Shown = Toast & { id: number };

export const toasts = signal<Shown[]>([]);
let lastId = 0;

export function showToast(toast: Toast): void {
  const [oldest, ...others] = toasts.value;
  if (oldest && toasts.value.length >= TOASTS_MAX) {
    oldest.onExpire?.();
    toasts.value = others;
  }
  toasts.value = [...toasts.value, { ...toast, id: ++lastId }];
}

export const showError = (reason: unknown) => showToast({ text: errorText(reason), isError: true });

const close = (toast: Shown) =>
  (toasts.value = toasts.value.filter((other) => other.id !== toast.id));

function expire(toast: Shown): void {
  close(toast);
  toast.onExpire?.();
}

async function undo(toast: Shown): Promise<void> {
  close(toast);
  await toast.undo?.().catch(showError);
}

/** Undoes the newest action that can be undone. */
export function undoNewest(): void {
  const newest = toasts.value.findLast((toast) => toast.undo);
  if (newest) void undo(newest);
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
