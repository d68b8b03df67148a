// One row of a conversation.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, request, told } from './api';
import { Chip, Clock, Icon, IconButton, plain } from './bits';
import { changeIn, unified, without, type Line } from './diff';
import { CODE_LINES_MAX, codeOf, render } from './markdown';
import { textOf, type Row } from './rows';
import type { Message, Turn, Usage } from './types';

/** What can be done with a turn. */
export interface Acts {
  fork(turn: Turn): void;
  rewind(turn: Turn): void;
  retry(): void;
  isHead(turn: Turn): boolean;
  idle: boolean;
  /** It waits: a call without a result waits for one. */
  suspended: boolean;
}

/** How many characters of a tool's output are shown before it is asked for more. */
const OUTPUT_CHARS_MAX = 4000;
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Which folds are open, beyond the life of a row that is scrolled away. */
const unfolded = new Map<string, boolean>();

export function RowView({ row, acts }: { row: Row; acts: Acts | null }) {
  switch (row.kind) {
    case 'gap':
      return <div class="gap" style={{ height: `${row.guess}px` }} aria-label={`${row.to - row.from + 1} turns that are not loaded yet`} role="img" />;
    case 'user':
      return <UserMessage message={row.message} />;
    case 'head':
      return <Head message={row.message} turn={row.turn} />;
    case 'text':
      return <Block raw={row.raw} name={row.key} />;
    case 'thought':
      return <Thought name={row.key} text={row.text} live={row.live} />;
    case 'tool':
      return <Tool row={row} waits={acts?.suspended ?? false} />;
    case 'error':
      return (
        <div class="error" role="group" aria-label="Error">
          <strong>{row.part.provider_id ? `${row.part.provider_id} failed` : 'It failed'}</strong>
          <code class="code-name">{row.part.code}</code>
          <p>{row.part.message}</p>
        </div>
      );
    case 'plan':
      return <Plan entries={row.entries} />;
    case 'image':
      return <Picture blob={row.part.blob} type={row.part.media_type} />;
    case 'mark':
      return <Mark row={row} />;
    case 'notice':
      return <p class="notice">{row.text}</p>;
    case 'foot':
      return <Foot turn={row.turn} acts={acts} />;
    case 'busy':
      return (
        <div class="busy" aria-hidden="true">
          <span />
          <span />
          <span />
        </div>
      );
  }
}

function UserMessage({ message }: { message: Message }) {
  const pictures = message.content.filter((part) => part.type === 'image');
  return (
    <article class="user" aria-label="Message from you">
      <header class="by">
        <h2>{message.source && message.source !== 'human' ? plain(message.source) : 'You'}</h2>
        <Clock at={message.created_at} />
      </header>
      <Long text={textOf(message)} name={message.id} />
      {pictures.map((part) => part.type === 'image' && <Picture key={part.blob} blob={part.blob} type={part.media_type} />)}
    </article>
  );
}

/** A user's text: as Markdown, in part where it is very long. */
function Long({ text, name }: { text: string; name: string }) {
  const [open, toggle] = useFold(`long:${name}`, false);
  const cut = !open && text.length > 6000;
  return (
    <>
      <Html html={render(cut ? text.slice(0, 4000) : text)} />
      {cut && (
        <button type="button" class="link" onClick={toggle}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </>
  );
}

function Head({ message, turn }: { message: Message; turn: Turn | null }) {
  const provider = turn?.provider_id ?? message.provider_id;
  const model = turn?.model ?? message.model;
  return (
    <header class="by agent">
      <h2>{provider ?? 'Agent'}</h2>
      {model && model !== provider && <span class="model">{model}</span>}
      <Clock at={message.created_at} />
    </header>
  );
}

/** HTML that was made safe; the same words are not put into the page twice. */
const Html = ({ html }: { html: string }) => useMemo(() => <div class="prose" dangerouslySetInnerHTML={{ __html: html }} />, [html]);

/** A block of an answer; code can be copied, and very long code is shown in part. */
function Block({ raw, name }: { raw: string; name: string }) {
  const code = useMemo(() => (/^\s{0,3}(```|~~~)/.test(raw) ? codeOf(raw) : null), [raw]);
  return code ? <Code {...code} name={name} /> : <Html html={render(raw)} />;
}

function Code({ text, lang, name }: { text: string; lang: string; name: string }) {
  const [open, toggle] = useFold(`code:${name}`, false);
  const lines = text.split('\n');
  const cut = !open && lines.length > CODE_LINES_MAX;
  const fence = '`'.repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length + 1)));
  return (
    <figure class="code">
      <figcaption>
        <span>{lang || 'text'}</span>
        <Copy text={text} label="Copy code" />
      </figcaption>
      <Html html={render(`${fence}${lang}\n${cut ? lines.slice(0, CODE_LINES_MAX - 10).join('\n') : text}\n${fence}`)} />
      {cut && (
        <button type="button" class="link" onClick={toggle}>
          Show all {lines.length} lines
        </button>
      )}
    </figure>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <IconButton icon={done ? 'task' : 'copy'} label={done ? 'Copied' : label} onClick={() => void copy()} />;
}

function useFold(name: string, start: boolean): [boolean, () => void] {
  const [open, setOpen] = useState(unfolded.get(name) ?? start);
  const toggle = () => {
    if (unfolded.size > 5000) unfolded.clear();
    unfolded.set(name, !open);
    setOpen(!open);
  };
  return [open, toggle];
}

function Fold({ name, title, children, tone }: { name: string; title: ComponentChildren; children: () => ComponentChildren; tone?: string }) {
  const [open, toggle] = useFold(name, false);
  return (
    <div class={`fold ${tone ?? ''} ${open ? 'open' : ''}`}>
      <button type="button" class="fold-title" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        {title}
      </button>
      {open && <div class="fold-body">{children()}</div>}
    </div>
  );
}

function Thought({ name, text, live }: { name: string; text: string; live: boolean }) {
  const title = (
    <>
      <span>{live ? 'Thinking' : 'Thought'}</span>
      <span class="hint">{text.replace(/\s+/g, ' ').slice(0, 100)}</span>
    </>
  );
  return (
    <Fold name={name} title={title} tone="thought">
      {() => <Html html={render(text)} />}
    </Fold>
  );
}

/** The status of a call as words and a tone. */
const CALLS: Record<string, [string, string]> = {
  pending: ['waiting', 'ask'],
  running: ['running', 'live'],
  completed: ['done', 'good'],
  failed: ['failed', 'bad'],
  unknown: ['outcome unknown', 'ask'],
};

function Tool({ row, waits }: { row: Row & { kind: 'tool' }; waits: boolean }) {
  const { call, result } = row;
  const status = call?.status === 'running' && !row.live ? (result ? 'completed' : 'unknown') : (call?.status ?? (result?.is_error ? 'failed' : 'completed'));
  const [word, tone] = CALLS[waits && status === 'running' ? 'pending' : status] ?? [plain(status), ''];
  const change = changeIn(call?.params);
  const title = (
    <>
      <code>{call?.name ?? 'result'}</code>
      <span class="hint">{call ? brief(call.params) : result?.tool_call_id}</span>
      <Chip tone={tone}>{word}</Chip>
    </>
  );
  return (
    <Fold name={row.key} title={title} tone={`tool ${status === 'failed' ? 'bad' : ''}`}>
      {() => (
        <>
          {change ? <Diff lines={change} /> : null}
          {call && call.params !== null && <Output title="Input" text={pretty(change ? without(call.params) : call.params)} />}
          {result ? <Result result={result} name={row.key} /> : <p class="hint">No result yet.</p>}
        </>
      )}
    </Fold>
  );
}

/** The most telling parameter in one line. */
export function brief(params: unknown): string {
  if (typeof params !== 'object' || params === null) return '';
  const fields = Object.entries(params as Record<string, unknown>);
  const told = fields.find(([name]) => ['command', 'path', 'file_path', 'query', 'pattern', 'url'].includes(name)) ?? fields[0];
  if (!told) return '';
  const value = typeof told[1] === 'string' ? told[1] : JSON.stringify(told[1]);
  return value.replace(/\s+/g, ' ').slice(0, 120);
}

function pretty(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function Result({ result, name }: { result: NonNullable<(Row & { kind: 'tool' })['result']>; name: string }) {
  const [text, setText] = useState(result.content);
  const [failed, setFailed] = useState<string | null>(null);
  const fetchBlob = async () => {
    try {
      setText(await (await request('GET', `/blobs/${result.blob}`)).text());
    } catch (error) {
      setFailed(told(error));
    }
  };
  if (result.blob && !text) {
    return (
      <div class="output">
        <span class="output-title">Output</span>
        <button type="button" class="link" onClick={() => void fetchBlob()}>
          Show {size(result.bytes)}
        </button>
        {failed && <p class="failed">{failed}</p>}
      </div>
    );
  }
  const lines = unified(text);
  return lines ? <Diff lines={lines} /> : <Output title={result.is_error ? 'Error' : 'Output'} text={text} name={name} />;
}

const size = (bytes: number | null) => (bytes === null ? 'it' : bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1024).toLocaleString()} KiB`);

function Output({ title, text, name }: { title: string; text: string; name?: string }) {
  const [open, toggle] = useFold(`out:${title}:${name}`, false);
  const cut = !open && text.length > OUTPUT_CHARS_MAX;
  return (
    <div class="output">
      <span class="output-title">{title}</span>
      <pre tabIndex={0} aria-label={title}>
        {cut ? text.slice(0, OUTPUT_CHARS_MAX) : text || '(empty)'}
      </pre>
      {cut && (
        <button type="button" class="link" onClick={toggle}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </div>
  );
}

const DIFF_LINES_MAX = 200;
const WORDS = { '+': 'added', '-': 'removed', ' ': '', '@': 'meta' };

function Diff({ lines }: { lines: Line[] }) {
  return (
    <div class="output">
      <span class="output-title">Change</span>
      <pre class="diff" tabIndex={0} aria-label="Change">
        {lines.slice(0, DIFF_LINES_MAX).map((line, n) => (
          <span key={n} class={`line ${WORDS[line.mark]}`}>
            {line.mark === '@' ? line.text || ' ' : `${line.mark} ${line.text}`}
          </span>
        ))}
        {lines.length > DIFF_LINES_MAX && `⋯ ${lines.length - DIFF_LINES_MAX} more lines`}
      </pre>
    </div>
  );
}

function Plan({ entries }: { entries: unknown }) {
  const items = Array.isArray(entries) ? entries : [];
  return (
    <div class="plan">
      <span class="output-title">Plan</span>
      <ul>
        {items.slice(0, 100).map((entry, n) => {
          const fields = (typeof entry === 'object' && entry !== null ? entry : { content: entry }) as Record<string, unknown>;
          const status = String(fields.status ?? 'pending');
          return (
            <li key={n} class={status}>
              <span aria-label={plain(status)} role="img" class="tick">
                {status === 'completed' ? '✓' : status === 'in_progress' ? '◐' : '○'}
              </span>
              {String(fields.content ?? fields.text ?? fields.title ?? JSON.stringify(entry))}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** A picture is fetched like everything else, with the token, and shown from memory. */
function Picture({ blob, type }: { blob: string; type: string }) {
  const [url, setUrl] = useState<string | null>(null);
  const [failed, setFailed] = useState<string | null>(IMAGE_TYPES.includes(type) ? null : `a picture of the type ${type}, which is not shown`);
  useEffect(() => {
    if (failed) return;
    let made: string | null = null;
    let gone = false;
    request('GET', `/blobs/${blob}`)
      .then((response) => response.arrayBuffer())
      .then((bytes) => {
        if (gone) return;
        made = URL.createObjectURL(new Blob([bytes], { type }));
        setUrl(made);
      })
      .catch((error) => setFailed(told(error)));
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [blob]);
  if (failed) return <p class="hint">{failed}</p>;
  return <div class="picture">{url && <img src={url} alt="attached picture" />}</div>;
}

function Mark({ row }: { row: Row & { kind: 'mark' } }) {
  const detail = row.turn.compaction as { turns_summarized?: number; tokens_before?: number; tokens_after?: number } | null;
  const tokens = detail?.tokens_before && detail.tokens_after ? `, ${detail.tokens_before.toLocaleString()} → ${detail.tokens_after.toLocaleString()} tokens` : '';
  return (
    <div class="mark">
      <Fold
        name={row.key}
        tone="compaction"
        title={
          <span>
            Context shortened{detail?.turns_summarized ? `: ${detail.turns_summarized} turns summarised` : ''}
            {tokens}. Nothing was deleted.
          </span>
        }
      >
        {() => <Html html={render(row.text || 'The summary is empty.')} />}
      </Fold>
    </div>
  );
}

function usageOf(usage: Usage | null): string {
  if (!usage) return '';
  const parts = [];
  if (usage.input_tokens !== null) parts.push(`${usage.input_tokens.toLocaleString()} in`);
  if (usage.cached_tokens) parts.push(`${usage.cached_tokens.toLocaleString()} cached`);
  if (usage.output_tokens !== null) parts.push(`${usage.output_tokens.toLocaleString()} out`);
  if (usage.cost) parts.push(usage.cost);
  return parts.join(' · ');
}

const STATUSES: Record<string, string> = { interrupted: 'interrupted', cancelled: 'cancelled', failed: 'failed', truncated: 'cut short' };

function Foot({ turn, acts }: { turn: Turn; acts: Acts | null }) {
  const seconds = (Date.parse(turn.ended_at) - Date.parse(turn.started_at)) / 1000;
  const answer = turn.messages.filter((message) => message.role === 'assistant').map(textOf).join('\n\n').trim();
  return (
    <footer class="foot">
      {turn.status !== 'completed' && <Chip tone={turn.status === 'failed' ? 'bad' : 'ask'}>{STATUSES[turn.status] ?? plain(turn.status)}</Chip>}
      <span class="hint">
        {usageOf(turn.usage)}
        {seconds >= 1 ? `${turn.usage ? ' · ' : ''}${seconds < 90 ? `${seconds.toFixed(0)} s` : `${Math.round(seconds / 60)} min`}` : ''}
      </span>
      <span class="acts">
        {answer && <Copy text={answer} label="Copy the answer" />}
        {acts && (
          <>
            <IconButton icon="fork" label="Fork here" onClick={() => acts.fork(turn)} />
            {acts.isHead(turn)
              ? acts.idle && <IconButton icon="retry" label="Run the last message again" onClick={() => acts.retry()} />
              : acts.idle && <IconButton icon="rewind" label="Rewind to here" onClick={() => acts.rewind(turn)} />}
          </>
        )}
      </span>
    </footer>
  );
}

/** One turn by itself, for views that show few. */
export const fetchTurn = (id: string) => get<Turn>(`/turns/${id}`);
