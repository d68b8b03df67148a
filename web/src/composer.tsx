// Where a message is written: always usable, whatever the session does. The draft is kept until the server has it.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { at, once, post, told } from './api';
import { Failed, Icon, IconButton } from './bits';
import { fenceFor } from './markdown';
import { draftOf, keepDraft } from './prefs';
import { providers } from './sessions';
import type { QueueMode, Session } from './types';

/** What a file may have at most; the server takes 8 MB of a body. */
const IMAGE_MAX_BYTES = 4_000_000;
const TEXT_MAX_BYTES = 400_000;
const FILES_MAX = 8;

const MODES: [QueueMode, string][] = [
  ['interrupt', 'Interrupt: stop, then this'],
  ['steer', 'Steer: say it into the answer'],
  ['steer-backlog', 'Steer, or wait'],
  ['queue', 'Queue: after this, in order'],
  ['collect', 'Collect: together with others'],
];

type File_ = { name: string } & ({ kind: 'text'; text: string } | { kind: 'image'; type: string; data: string });

export interface Sending {
  content: unknown[];
  provider_id?: string;
  model?: string;
  queue_mode?: QueueMode;
}

interface Props {
  /** The draft's name. */
  name: string;
  session: Session | null;
  send(message: Sending, key: string): Promise<void>;
  placeholder: string;
  /** Put the cursor here when this changes. */
  focus: number;
  /** And at once. */
  eager?: boolean;
}

export function Composer({ name, session, send, placeholder, focus, eager }: Props) {
  const [text, setText] = useState(() => draftOf(name));
  const [files, setFiles] = useState<File_[]>([]);
  const [provider, setProvider] = useState('');
  const [model, setModel] = useState('');
  const [mode, setMode] = useState<QueueMode | ''>('');
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<string | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  /** The same try has the same key, so that a message whose answer was lost is not sent twice. */
  const key = useRef('');

  const change = (next: string) => {
    setText(next);
    keepDraft(name, next);
    key.current = '';
  };
  useLayoutEffect(() => grow(field.current), [text]);
  const focused = useRef(focus);
  useEffect(() => {
    if (eager || focus !== focused.current) field.current?.focus();
    focused.current = focus;
  }, [focus]);

  const running = session?.state === 'running';
  const suspended = session?.state === 'suspended';
  const blind = providers.value.all.find((one) => one.id === (provider || session?.provider_id || providers.value.fallback) && !one.can.images);
  const ready = !busy && (text.trim() !== '' || files.length > 0);

  const submit = async () => {
    if (!ready) return;
    setBusy(true);
    setFailed(null);
    key.current ||= once();
    const message: Sending = { content: contentOf(text, files) };
    if (provider) message.provider_id = provider;
    if (model.trim()) message.model = model.trim();
    if (mode && (running || suspended)) message.queue_mode = mode;
    try {
      await send(message, key.current);
      setText('');
      setFiles([]);
      keepDraft(name, '');
      key.current = '';
    } catch (error) {
      setFailed(told(error));
    } finally {
      setBusy(false);
      field.current?.focus();
    }
  };

  const attach = async (list: Iterable<File>) => {
    key.current = '';
    for (const file of list) {
      const read = await readFile(file).catch((error: Error) => error);
      if (read instanceof Error) setFailed(read.message);
      else setFiles((files) => (files.length < FILES_MAX ? [...files, read] : files));
    }
  };

  return (
    <form
      class="composer"
      aria-label="Write a message"
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
      <Failed text={failed} />
      {files.length > 0 && (
        <ul class="files" aria-label="Attachments">
          {files.map((file, n) => (
            <li key={n}>
              {file.name}
              <IconButton icon="close" label={`Remove ${file.name}`} onClick={() => setFiles(files.toSpliced(n, 1))} />
            </li>
          ))}
        </ul>
      )}
      {blind && files.some((file) => file.kind === 'image') && <p class="hint">{blind.id} cannot see pictures: it is told that there is one.</p>}
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
          }
        }}
      />
      <div class="composer-bar">
        <input ref={chooser} type="file" multiple hidden onChange={(event) => void attach(event.currentTarget.files ?? []).then(() => chooser.current && (chooser.current.value = ''))} />
        <IconButton icon="attach" label="Attach pictures or text files" onClick={() => chooser.current?.click()} />
        <Answerer session={session} provider={provider} setProvider={setProvider} model={model} setModel={setModel} />
        {(running || suspended) && (
          <select class="quiet" aria-label="What to do while it is busy" value={mode} onChange={(event) => setMode(event.currentTarget.value as QueueMode | '')}>
            <option value="">{suspended ? 'Wait for the answer' : session?.track_tasks ? 'As usual: steer, or wait' : 'As usual: interrupt'}</option>
            {MODES.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        )}
        <span class="spring" />
        {running && <Cancel id={session.id} failed={setFailed} />}
        <button type="submit" class="primary send" disabled={!ready} aria-label="Send" title="Send (Enter)">
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}

/** Who answers this message; without a choice, whoever the session prefers. */
function Answerer(props: { session: Session | null; provider: string; setProvider(id: string): void; model: string; setModel(model: string): void }) {
  const { all, fallback } = providers.value;
  const usual = props.session?.provider_id ?? fallback ?? 'nobody';
  const chosen = all.find((provider) => provider.id === (props.provider || usual));
  const usualModel = (props.provider ? null : props.session?.model) ?? chosen?.model;
  return (
    <>
      <select class="quiet" aria-label="Provider of this message" value={props.provider} onChange={(event) => props.setProvider(event.currentTarget.value)}>
        <option value="">{usual}</option>
        {all
          .filter((provider) => provider.id !== usual)
          .map((provider) => (
            <option key={provider.id} value={provider.id} disabled={!provider.available}>
              {provider.id}
              {provider.available ? '' : ` (${provider.reason ?? 'not available'})`}
            </option>
          ))}
      </select>
      {chosen?.kind !== 'demo' && (
        <>
          <input
            class="quiet"
            aria-label="Model of this message"
            list="models"
            size={14}
            value={props.model}
            placeholder={usualModel ?? 'model'}
            onInput={(event) => props.setModel(event.currentTarget.value)}
          />
          <datalist id="models">{chosen?.models?.map((model) => <option key={model} value={model} />)}</datalist>
        </>
      )}
    </>
  );
}

function Cancel({ id, failed }: { id: string; failed(why: string): void }) {
  const [busy, setBusy] = useState(false);
  const cancel = async () => {
    setBusy(true);
    await post(at(id, '/cancel')).catch((error) => failed(told(error)));
    setBusy(false);
  };
  return (
    <button type="button" class="cancel" disabled={busy} onClick={() => void cancel()}>
      <Icon name="stop" /> Cancel
    </button>
  );
}

function grow(field: HTMLTextAreaElement | null): void {
  if (!field) return;
  field.style.height = 'auto';
  field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
}

async function readFile(file: File): Promise<File_> {
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) {
    if (file.size > IMAGE_MAX_BYTES) throw new Error(`${file.name} is larger than ${IMAGE_MAX_BYTES / 1e6} MB and cannot be attached.`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    let binary = '';
    for (let n = 0; n < bytes.length; n += 0x8000) binary += String.fromCharCode(...bytes.subarray(n, n + 0x8000));
    return { kind: 'image', name: file.name, type: file.type, data: btoa(binary) };
  }
  if (file.size > TEXT_MAX_BYTES) throw new Error(`${file.name} is larger than ${TEXT_MAX_BYTES / 1000} kB and cannot be attached as text.`);
  try {
    return { kind: 'text', name: file.name, text: new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer()) };
  } catch {
    throw new Error(`${file.name} is neither text nor a picture (PNG, JPEG, GIF, WebP).`);
  }
}

/** A message's parts: its words with text files in them as fenced blocks, then pictures. */
export function contentOf(text: string, files: File_[]): unknown[] {
  const fenced = files.flatMap((file) => (file.kind === 'text' ? [fence(file.name, file.text)] : []));
  const words = [text.trim(), ...fenced].filter(Boolean).join('\n\n');
  const pictures = files.flatMap((file) => (file.kind === 'image' ? [{ type: 'image', media_type: file.type, data: file.data }] : []));
  return [...(words ? [{ type: 'text', text: words }] : []), ...pictures];
}

function fence(name: string, text: string): string {
  const ticks = fenceFor(text);
  return `${name}:\n${ticks}${name.includes('.') ? name.split('.').at(-1) : ''}\n${text.replace(/\n$/, '')}\n${ticks}`;
}
