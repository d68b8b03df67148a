// The message editor: text, attachments, completions, provider, model, delivery. It can be used in
// every state of the session. The draft is kept until the server has accepted the message.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { errorText, get, hasErrorCode, newIdempotencyKey } from './api';
import type { QueueMode, Session } from './api-types';
import {
  type Attachment,
  AttachmentChips,
  ATTACHMENTS_MAX,
  messageContent,
  readAttachment,
} from './attachments';
import {
  type Completion,
  CompletionList,
  COMPLETIONS_ID,
  mentionAt,
  useCompletions,
} from './completions';
import { chosenMode, DeliveryChoice } from './delivery-choice';
import { connection } from './event-stream';
import { Icon, IconButton } from './icon';
import { loadDraft, saveDraft } from './preferences';
import { ProviderChoice } from './provider-choice';
import { fetchProviders, providers } from './provider-store';
import { hrefTo, navigate } from './route';

/** Agents read mentioned files themselves; models get the text of the file. */
const AGENT_KINDS = ['acp', 'pi'];

export interface OutgoingMessage {
  content: unknown[];
  provider_id?: string;
  model?: string;
  queue_mode?: QueueMode;
}

/** Incremented to move the keyboard focus to the message field. */
const focusRequests = signal(0);
export const requestComposerFocus = () => void focusRequests.value++;

/** The composer that gets the focus when it appears, by the name of its draft. */
let composerToFocus: string | null = null;
export const focusWhenShown = (draftName: string) => void (composerToFocus = draftName);

/** Shows a session that was just created, with the focus in its field: the next letter belongs to
 * the message and is no shortcut. */
export function openToWrite(session: string): void {
  focusWhenShown(session);
  navigate(hrefTo.session(session));
}

interface Props {
  /** The draft is stored under this name. */
  draftName: string;
  /** Null for a session that does not exist yet. */
  session: Session | null;
  send(message: OutgoingMessage, idempotencyKey: string): Promise<void>;
  placeholder: string;
  /** The directory whose files are offered after `@`. */
  workingDir: string | null;
  /** Stops the current run. */
  onStop?: () => Promise<unknown>;
  autofocus?: boolean;
  /** Shown below the field. */
  children?: ComponentChildren;
}

export function Composer(props: Props) {
  const { draftName, session, send, placeholder, workingDir, onStop, autofocus } = props;
  const [text, setText] = useState(() => loadDraft(draftName));
  const [cursor, setCursor] = useState(0);
  const [attachments, setAttachments] = useState<Attachment[]>([]);
  const [provider, setProvider] = useState('');
  const [model, setModel] = useState('');
  const [wantedMode, setWantedMode] = useState<QueueMode | ''>('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const fileInput = useRef<HTMLInputElement>(null);
  /** Kept until the message changes: a retry after a lost response must not send it twice. */
  const idempotencyKey = useRef('');
  useFocusRequests(field, draftName, autofocus ?? false);
  useLayoutEffect(() => fitHeight(field.current), [text]);
  useEffect(() => {
    // An error about the connection is out of date when the connection is back.
    if (connection.value === 'connected' && hasErrorCode(error, 'unreachable')) setError(null);
  }, [connection.value]);

  const change = (next: string) => {
    setText(next);
    saveDraft(draftName, next);
    idempotencyKey.current = '';
    // An agent reports its commands only after it has started.
    if (next === '/') void fetchProviders();
  };
  const running = session?.state === 'running';
  const providerId = provider || session?.provider_id || providers.value.defaultId;
  const agent = providers.value.all.find((one) => one.id === providerId);
  const mode = chosenMode(session, wantedMode);
  const commands = session ? (agent?.commands ?? []) : null;
  const offered = useCompletions({ text, cursor, commands, workingDir });
  const completions = useChosen(offered, text);
  const canSend = !busy && (text.trim() !== '' || attachments.length > 0);

  const addAttachment = (read: Attachment) =>
    setAttachments((before) => [...before, read].slice(0, ATTACHMENTS_MAX));
  const attach = async (files: Iterable<File>) => {
    idempotencyKey.current = '';
    for (const file of files) await readAttachment(file).then(addAttachment, setError);
  };
  const complete = (item: Completion) => {
    if (item.kind === 'command') change(`${item.label} `);
    else {
      const typed = mentionAt(text, cursor) ?? '';
      const start = cursor - typed.length;
      const next = `${text.slice(0, start)}${item.label} ${text.slice(cursor)}`;
      change(next);
      setCursor(start + item.label.length + 1);
      if (workingDir && !AGENT_KINDS.includes(agent?.kind ?? '')) {
        void readMentioned(workingDir, item.label).then(addAttachment, setError);
      }
    }
    field.current?.focus();
  };
  const submit = async () => {
    if (!canSend) return;
    setBusy(true);
    setError(null);
    idempotencyKey.current ||= newIdempotencyKey();
    const message: OutgoingMessage = { content: messageContent(text, attachments) };
    if (provider) message.provider_id = provider;
    if (model.trim()) message.model = model.trim();
    if (mode) message.queue_mode = mode;
    try {
      await send(message, idempotencyKey.current);
      setText('');
      setAttachments([]);
      saveDraft(draftName, '');
      idempotencyKey.current = '';
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
      field.current?.focus();
    }
  };
  const stop = () => void onStop?.().catch(setError);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (completions.onKey(event, complete)) return event.preventDefault();
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      void submit();
    }
  };
  /** The next letter belongs to the message: outside of fields, letters are shortcuts. */
  const focusField = (event: MouseEvent) => {
    const target = event.target as HTMLElement;
    const isChoice = target.closest('.delivery-choice') !== null;
    if (isChoice) {
      // The arrow keys choose, too, and keep the focus. A label takes the focus after this event.
      if (event.detail > 0) requestAnimationFrame(() => field.current?.focus());
    } else if (!target.closest('button, input, select, textarea, a, label, li')) {
      field.current?.focus();
    }
  };
  return (
    <form
      class="composer"
      aria-label="New message"
      onClick={focusField}
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void attach(event.dataTransfer?.files ?? []);
      }}
    >
      {/* Above the field, which therefore stays in its place when a run starts. */}
      <DeliveryChoice session={session} value={mode} onChange={setWantedMode} />
      <ErrorMessage text={error === null ? null : describe(error)} />
      <AttachmentChips
        attachments={attachments}
        onRemove={(n) => setAttachments(attachments.toSpliced(n, 1))}
      />
      {agent && !agent.can.images && attachments.some(({ kind }) => kind === 'image') && (
        <p class="hint">
          {providerId} does not support images. It receives a note that one is attached.
        </p>
      )}
      <CompletionList items={completions.items} chosen={completions.chosen} onChoose={complete} />
      <textarea
        ref={field}
        rows={1}
        dir="auto"
        value={text}
        aria-label="Message"
        aria-controls={completions.items.length ? COMPLETIONS_ID : undefined}
        aria-activedescendant={
          completions.items.length ? `completion-${completions.chosen}` : undefined
        }
        placeholder={placeholder}
        onInput={(event) => {
          setCursor(event.currentTarget.selectionStart);
          change(event.currentTarget.value);
        }}
        onSelect={(event) => setCursor(event.currentTarget.selectionStart)}
        onPaste={(event) => {
          const pasted = [...(event.clipboardData?.files ?? [])];
          if (pasted.length) {
            event.preventDefault();
            void attach(pasted);
          }
        }}
        onKeyDown={onKeyDown}
      />
      <div class="composer-bar">
        <input
          ref={fileInput}
          type="file"
          multiple
          hidden
          onChange={(event) =>
            void attach(event.currentTarget.files ?? []).then(
              () => fileInput.current && (fileInput.current.value = ''),
            )
          }
        />
        <IconButton
          icon="attach"
          label="Attach images or text files"
          onClick={() => fileInput.current?.click()}
        />
        <ProviderChoice
          session={session}
          provider={provider}
          setProvider={setProvider}
          model={model}
          setModel={setModel}
        />
        <span class="spacer" />
        {running && onStop && (
          <button type="button" class="stop" title="Stop (Esc)" onClick={stop}>
            <Icon name="stop" /> Stop
          </button>
        )}
        <button
          type="submit"
          class="primary send"
          disabled={!canSend}
          aria-label="Send"
          title="Send (Enter)"
        >
          <Icon name="send" />
        </button>
      </div>
      {props.children}
    </form>
  );
}

const describe = (error: unknown) => (error instanceof Error ? errorText(error) : String(error));

/** Moves the focus to the field at the start and on request. */
function useFocusRequests(
  field: { current: HTMLTextAreaElement | null },
  draftName: string,
  autofocus: boolean,
): void {
  const requests = focusRequests.value;
  const handled = useRef(requests);
  useEffect(() => {
    const isNext = composerToFocus === draftName;
    if (isNext) composerToFocus = null;
    if (autofocus || isNext || requests !== handled.current) field.current?.focus();
    handled.current = requests;
  }, [requests]);
}

/** The offered completions with the chosen one. Escape hides them until the text changes. */
function useChosen(offered: Completion[], text: string) {
  const [chosen, setChosen] = useState(0);
  const [dismissed, setDismissed] = useState<string | null>(null);
  useEffect(() => setChosen(0), [text]);
  const items = dismissed === text ? [] : offered;
  const index = Math.min(chosen, Math.max(0, items.length - 1));
  const onKey = (event: KeyboardEvent, complete: (item: Completion) => void): boolean => {
    const item = items[index];
    if (!item) return false;
    if (event.key === 'ArrowDown') setChosen((index + 1) % items.length);
    else if (event.key === 'ArrowUp') setChosen((index + items.length - 1) % items.length);
    else if (event.key === 'Tab' && !event.shiftKey) complete(item);
    else if (event.key === 'Enter' && !event.shiftKey && item.kind === 'file') complete(item);
    else if (event.key === 'Escape') {
      setDismissed(text);
      event.stopPropagation();
    } else return false;
    return true;
  };
  return { items, chosen: index, onKey };
}

async function readMentioned(workingDir: string, path: string): Promise<Attachment> {
  const query = new URLSearchParams({ working_dir: workingDir, path });
  const { text } = await get<{ text: string }>(`/files?${query}`);
  return { kind: 'text', name: path, text };
}

/** Makes the field as high as its text, up to 40 % of the window. */
function fitHeight(field: HTMLTextAreaElement | null): void {
  if (!field) return;
  field.style.height = 'auto';
  field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
}
