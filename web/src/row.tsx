// One row of a conversation.
import { get } from './api';
import { Chip, Clock, Failed, Icon, IconButton, plain, useAct } from './bits';
import { Block, Copy, Fold, Html, Long } from './block';
import { Mark } from './compact';
import { render } from './markdown';
import { Picture } from './picture';
import { textOf, type Row } from './rows';
import { Tool } from './tool';
import type { Message, Turn, Usage } from './types';

/** What can be done with a turn; what fails says so where it was asked for. */
export interface Acts {
  session: string;
  fork(turn: string): Promise<unknown>;
  rewind(turn: string): Promise<unknown>;
  retry(): Promise<unknown>;
  pin(turn: string, wanted: boolean): Promise<unknown>;
  isPinned(turn: string): boolean;
  isHead(turn: Turn): boolean;
  idle: boolean;
  /** It waits: a call without a result waits for one. */
  suspended: boolean;
}

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
      return <Mark name={row.key} turn={row.turn} text={row.text} acts={acts} />;
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
  const [busy, failed, act] = useAct();
  const pinned = acts?.isPinned(turn.id) ?? turn.pinned;
  return (
    <footer class="foot">
      {pinned && (
        <Chip tone="live">
          <Icon name="pin" /> pinned
        </Chip>
      )}
      {turn.status !== 'completed' && <Chip tone={turn.status === 'failed' ? 'bad' : 'ask'}>{STATUSES[turn.status] ?? plain(turn.status)}</Chip>}
      <span class="hint">
        {usageOf(turn.usage)}
        {seconds >= 1 ? `${turn.usage ? ' · ' : ''}${seconds < 90 ? `${seconds.toFixed(0)} s` : `${Math.round(seconds / 60)} min`}` : ''}
      </span>
      <span class="acts">
        {answer && <Copy text={answer} label="Copy the answer" />}
        {acts && (
          <>
            <IconButton icon="pin" label={pinned ? 'Unpin this turn' : 'Pin this turn: it stays in every request'} disabled={busy} onClick={() => act(() => acts.pin(turn.id, !pinned))} />
            <IconButton icon="fork" label="Fork here" disabled={busy} onClick={() => act(() => acts.fork(turn.id))} />
            {acts.isHead(turn)
              ? acts.idle && <IconButton icon="retry" label="Run the last message again" disabled={busy} onClick={() => act(acts.retry)} />
              : acts.idle && <IconButton icon="rewind" label="Rewind to here" disabled={busy} onClick={() => act(() => acts.rewind(turn.id))} />}
          </>
        )}
      </span>
      <Failed text={failed} />
    </footer>
  );
}

/** One turn by itself, for views that show few. */
export const fetchTurn = (id: string) => get<Turn>(`/turns/${id}`);
