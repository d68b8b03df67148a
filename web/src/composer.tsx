// The message editor: text, attachments, provider, model, queue mode. It can be used in every state
// of the session. The draft is kept until the server has accepted the message.
import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { errorText, newIdempotencyKey, post, sessionPath } from './api';
import type { Command, QueueMode, Session } from './api-types';
import { Icon, IconButton } from './icon';
import { fenceFor } from './markdown';
import { loadDraft, saveDraft } from './preferences';
import { fetchProviders, providers } from './provider-store';

/** Limits for attachments. The server accepts request bodies of at most 8 MB. */
const IMAGE_MAX_BYTES = 4_000_000;
const TEXT_MAX_BYTES = 400_000;
const ATTACHMENTS_MAX = 8;

const QUEUE_MODES: [QueueMode, string][] = [
  ['interrupt', 'Interrupt and send'],
  ['steer', 'Steer the current answer'],
  ['steer-backlog', 'Steer, or queue'],
  ['queue', 'Queue'],
  ['collect', 'Collect into one message'],
];

/** The commands that ctx itself answers. Other commands are the agent's. */
const CTX_COMMANDS: Command[] = [
  { name: 'help', description: 'List the commands of ctx' },
  { name: 'done', description: 'Seal the open task as complete' },
  { name: 'abandon', description: 'Seal the open task as abandoned' },
  { name: 'compact', description: 'Shorten the context' },
];

/** The commands that start with the text. */
function matchingCommands(text: string, agentCommands: Command[]): Command[] {
  if (text[0] !== '/') return [];
  const own = CTX_COMMANDS.map((command) => command.name);
  return CTX_COMMANDS.concat(
    agentCommands.filter(({ name }) => name && !own.includes(name)),
  ).filter(({ name }) => `/${name}`.startsWith(text) && `/${name}` !== text);
}

type Attachment = { name: string } & (
  { kind: 'text'; text: string } | { kind: 'image'; mediaType: string; data: string }
);

export interface OutgoingMessage {
  content: unknown[];
  provider_id?: string;
  model?: string;
  queue_mode?: QueueMode;
}

/** Incremented to move the keyboard focus to the message field. */
const focusRequests = signal(0);
export const requestComposerFocus = () => void focusRequests.value++;

interface Props {
  /** The draft is stored under this name. */
  draftName: string;
  /** Null for a session that does not exist yet. */
  session: Session | null;
  send(message: OutgoingMessage, idempotencyKey: string): Promise<void>;
  placeholder: string;
  autofocus?: boolean;
}

export function Composer({ draftName, session, send, placeholder, autofocus }: Props) {
  const [text, setText] = useState(() => loadDraft(draftName));
  const [attachments, setAttachments] = useState<Attachment[]>([]);
  const [provider, setProvider] = useState('');
  const [model, setModel] = useState('');
  const [mode, setMode] = useState<QueueMode | ''>('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const fileInput = useRef<HTMLInputElement>(null);
  /** Kept until the message changes: a retry after a lost response must not send it twice. */
  const idempotencyKey = useRef('');

  const change = (next: string) => {
    setText(next);
    saveDraft(draftName, next);
    idempotencyKey.current = '';
    // An agent reports its commands only after it has started.
    if (next === '/') void fetchProviders();
  };
  useLayoutEffect(() => fitHeight(field.current), [text]);
  const requests = focusRequests.value;
  const handledRequests = useRef(requests);
  useEffect(() => {
    if (autofocus || requests !== handledRequests.current) field.current?.focus();
    handledRequests.current = requests;
  }, [requests]);

  const running = session?.state === 'running';
  const suspended = session?.state === 'suspended';
  const providerId = provider || session?.provider_id || providers.value.defaultId;
  const agent = providers.value.all.find((one) => one.id === providerId);
  const lacksImages = agent && !agent.can.images;
  const commands = session ? matchingCommands(text, agent?.commands ?? []) : [];
  const complete = (command: Command) => {
    change(`/${command.name} `);
    field.current?.focus();
  };
  const canSend = !busy && (text.trim() !== '' || attachments.length > 0);

  const submit = async () => {
    if (!canSend) return;
    setBusy(true);
    setError(null);
    idempotencyKey.current ||= newIdempotencyKey();
    const message: OutgoingMessage = { content: messageContent(text, attachments) };
    if (provider) message.provider_id = provider;
    if (model.trim()) message.model = model.trim();
    if (mode && (running || suspended)) message.queue_mode = mode;
    try {
      await send(message, idempotencyKey.current);
      setText('');
      setAttachments([]);
      saveDraft(draftName, '');
      idempotencyKey.current = '';
    } catch (reason) {
      setError(errorText(reason));
    } finally {
      setBusy(false);
      field.current?.focus();
    }
  };

  const attach = async (files: Iterable<File>) => {
    idempotencyKey.current = '';
    for (const file of files) {
      const read = await readAttachment(file).catch((reason: Error) => reason);
      if (read instanceof Error) setError(read.message);
      else setAttachments((before) => [...before, read].slice(0, ATTACHMENTS_MAX));
    }
  };

  return (
    <form
      class="composer"
      aria-label="New message"
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
      <ErrorMessage text={error} />
      {attachments.length > 0 && (
        <ul class="attachments" aria-label="Attachments">
          {attachments.map((attachment, n) => (
            <li key={n}>
              {attachment.name}
              <IconButton
                icon="close"
                label={`Remove ${attachment.name}`}
                onClick={() => setAttachments(attachments.toSpliced(n, 1))}
              />
            </li>
          ))}
        </ul>
      )}
      {lacksImages && attachments.some((attachment) => attachment.kind === 'image') && (
        <p class="hint">
          {providerId} does not support images. It receives a note that one is attached.
        </p>
      )}
      {commands.length > 0 && (
        <ul class="commands" aria-label="Commands">
          {commands.map((command, n) => (
            <li key={command.name}>
              <button type="button" class="toggle" onClick={() => complete(command)}>
                /{command.name}
              </button>{' '}
              <span class="hint">{command.description}</span>
              {n === 0 && <kbd>Tab</kbd>}
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={field}
        rows={1}
        value={text}
        aria-label="Message"
        placeholder={placeholder}
        onInput={(event) => change(event.currentTarget.value)}
        onPaste={(event) => {
          const pasted = [...(event.clipboardData?.files ?? [])];
          if (pasted.length) {
            event.preventDefault();
            void attach(pasted);
          }
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            void submit();
          } else if (event.key === 'Tab' && !event.shiftKey && commands[0]) {
            event.preventDefault();
            complete(commands[0]);
          }
        }}
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
        {(running || suspended) && (
          <select
            class="quiet"
            aria-label="Queue mode"
            value={mode}
            onChange={(event) => setMode(event.currentTarget.value as QueueMode | '')}
          >
            <option value="">{defaultModeText(session)}</option>
            {QUEUE_MODES.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        )}
        <span class="spacer" />
        {running && <CancelButton id={session.id} onError={setError} />}
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
    </form>
  );
}

function defaultModeText(session: Session): string {
  if (session.state === 'suspended') return 'Default: wait';
  return session.track_tasks ? 'Default: steer, or queue' : 'Default: interrupt';
}

interface ProviderChoiceProps {
  session: Session | null;
  /** Empty for the default of the session. */
  provider: string;
  setProvider(id: string): void;
  model: string;
  setModel(model: string): void;
}

/** Selects the provider and the model for this message only. */
function ProviderChoice({ session, provider, setProvider, model, setModel }: ProviderChoiceProps) {
  const { all, defaultId } = providers.value;
  const sessionDefault = session?.provider_id ?? defaultId ?? 'no provider';
  const chosen = all.find((one) => one.id === (provider || sessionDefault));
  const defaultModel = (provider ? null : session?.model) ?? chosen?.model;
  return (
    <>
      <select
        class="quiet"
        aria-label="Provider"
        value={provider}
        onChange={(event) => setProvider(event.currentTarget.value)}
      >
        <option value="">{sessionDefault}</option>
        {all
          .filter((one) => one.id !== sessionDefault)
          .map((one) => (
            <option key={one.id} value={one.id} disabled={!one.available}>
              {one.id}
              {one.available ? '' : ` (${one.reason ?? 'not available'})`}
            </option>
          ))}
      </select>
      {chosen?.kind !== 'demo' && (
        <>
          <input
            class="quiet"
            aria-label="Model"
            list="models"
            size={14}
            value={model}
            placeholder={defaultModel ?? 'model'}
            onInput={(event) => setModel(event.currentTarget.value)}
          />
          <datalist id="models">
            {chosen?.models?.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </>
      )}
    </>
  );
}

function CancelButton({ id, onError }: { id: string; onError(text: string): void }) {
  const [busy, setBusy] = useState(false);
  const cancel = async () => {
    setBusy(true);
    await post(sessionPath(id, '/cancel')).catch((reason) => onError(errorText(reason)));
    setBusy(false);
  };
  return (
    <button type="button" class="cancel" disabled={busy} onClick={() => void cancel()}>
      <Icon name="stop" /> Cancel
    </button>
  );
}

/** Makes the field as high as its text, up to 40 % of the window. */
function fitHeight(field: HTMLTextAreaElement | null): void {
  if (!field) return;
  field.style.height = 'auto';
  field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
}

async function readAttachment(file: File): Promise<Attachment> {
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) {
    const maxMb = IMAGE_MAX_BYTES / 1e6;
    if (file.size > IMAGE_MAX_BYTES) {
      throw new Error(`Cannot attach ${file.name}: images can be at most ${maxMb} MB.`);
    }
    return { kind: 'image', name: file.name, mediaType: file.type, data: await base64(file) };
  }
  if (file.size > TEXT_MAX_BYTES) {
    const maxKb = TEXT_MAX_BYTES / 1000;
    throw new Error(`Cannot attach ${file.name}: text files can be at most ${maxKb} kB.`);
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return { kind: 'text', name: file.name, text };
  } catch {
    throw new Error(
      `Cannot attach ${file.name}: it is not UTF-8 text or an image (PNG, JPEG, GIF, WebP).`,
    );
  }
}

async function base64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = '';
  // In chunks, because the number of arguments of a call is limited.
  for (let n = 0; n < bytes.length; n += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(n, n + 0x8000));
  }
  return btoa(binary);
}

/** The parts of a message: one text part that ends with the text files, then the images. */
function messageContent(text: string, attachments: Attachment[]): unknown[] {
  const files = attachments.flatMap((one) =>
    one.kind === 'text' ? [fencedFile(one.name, one.text)] : [],
  );
  const fullText = [text.trim(), ...files].filter(Boolean).join('\n\n');
  const images = attachments.flatMap((one) =>
    one.kind === 'image' ? [{ type: 'image', media_type: one.mediaType, data: one.data }] : [],
  );
  return [...(fullText ? [{ type: 'text', text: fullText }] : []), ...images];
}

function fencedFile(name: string, text: string): string {
  const fence = fenceFor(text);
  const extension = name.includes('.') ? name.split('.').at(-1) : '';
  return `${name}:\n${fence}${extension}\n${text.replace(/\n$/, '')}\n${fence}`;
}
