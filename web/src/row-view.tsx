// Draws one row of the transcript.
import { ErrorMessage, useAction } from './action';
import type { Message, Turn } from './api-types';
import { Chip } from './chip';
import { Collapsible } from './collapsible';
import { CompactionMarker } from './compaction';
import { CopyButton } from './copy-button';
import { Icon, IconButton } from './icon';
import { BlobImage } from './image';
import { renderMarkdown } from './markdown';
import { MarkdownBlock, SafeHtml } from './markdown-block';
import { messageText, type Row } from './row-model';
import { hrefTo } from './route';
import { humanize, plural } from './session-display';
import { TaskActions } from './task-actions';
import { ClockTime } from './time';
import { ToolCall, ToolCalls } from './tool-call';
import { TurnFiles } from './turn-files';
import { turnUsage } from './turn-usage';
import { UserMessage } from './user-message';

const PLAN_ENTRIES_MAX = 100;

/** Actions on the turns of a session. A row without actions is read-only. */
export interface TurnActions {
  /** Id of the session. */
  session: string;
  fork(turn: string): Promise<unknown>;
  rewind(turn: Turn): Promise<unknown>;
  /** Sends a changed message on a branch that starts before its turn. */
  resend(depth: number, message: Message, text: string): Promise<unknown>;
  retry(): Promise<unknown>;
  setPinned(turn: string, pinned: boolean): Promise<unknown>;
  isPinned(turn: string): boolean;
  /** Whether a retry runs the messages of this turn again. */
  isLastExchange(depth: number): boolean;
  /** Key of the notice whose sealing can be undone. */
  sealing: string | null;
  isIdle: boolean;
  /** A running tool call without a result waits for the user then. */
  isSuspended: boolean;
}

export function RowView({ row, actions }: { row: Row; actions: TurnActions | null }) {
  switch (row.kind) {
    case 'gap':
      return (
        <div
          class="gap"
          style={{ height: `${row.estimatedHeight}px` }}
          aria-label={`${row.to - row.from + 1} turns not loaded yet`}
          role="img"
        />
      );
    case 'user':
      return <UserMessage message={row.message} depth={row.depth} actions={actions} />;
    case 'author':
      return <Author message={row.message} turn={row.turn} />;
    case 'text':
      return <MarkdownBlock source={row.source} name={row.key} />;
    case 'thought':
      return <Thought name={row.key} text={row.text} live={row.live} />;
    case 'tool':
      return <ToolCall row={row} isSuspended={actions?.isSuspended ?? false} />;
    case 'tools':
      return <ToolCalls row={row} isSuspended={actions?.isSuspended ?? false} />;
    case 'unread':
      return (
        <div class="unread-mark" role="separator">
          {plural(row.count, 'new turn')} since your last visit
        </div>
      );
    case 'error':
      return <ErrorCard part={row.part} depth={row.depth} actions={actions} />;
    case 'plan':
      return <Plan entries={row.entries} />;
    case 'image':
      return <BlobImage blob={row.part.blob} mediaType={row.part.media_type} />;
    case 'compaction':
      return (
        <CompactionMarker name={row.key} turn={row.turn} summary={row.summary} actions={actions} />
      );
    case 'notice':
      return (
        <Notice
          text={row.text}
          at={row.at}
          undo={row.key === actions?.sealing ? actions.session : null}
        />
      );
    case 'footer':
      return <TurnFooter turn={row.turn} actions={actions} />;
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

const errorTitle = ({ code, provider_id }: { code: string; provider_id: string | null }) =>
  code === 'interrupted' ? 'Interrupted' : provider_id ? `${provider_id} failed` : 'Failed';

interface ErrorCardProps {
  part: { code: string; message: string; provider_id: string | null };
  depth: number;
  actions: TurnActions | null;
}

function ErrorCard({ part, depth, actions }: ErrorCardProps) {
  const [busy, error, run] = useAction();
  return (
    <div class="error" role="group" aria-label="Error">
      <strong>{errorTitle(part)}</strong>
      <code class="code-name">{part.code}</code>
      <p>{part.message}</p>
      {actions?.isIdle && actions.isLastExchange(depth) && (
        <div class="buttons">
          <button type="button" class="small" disabled={busy} onClick={() => run(actions.retry)}>
            <Icon name="retry" /> Retry
          </button>
        </div>
      )}
      <ErrorMessage text={error} />
    </div>
  );
}

const PERMISSION = /^Permission asked: (.*)\nDecision: (.*?)(?: \(([^()]*)\))?, by (.*)\.$/s;
const UNDO_SENTENCE = / To undo this, .*/s;

interface NoticeProps {
  text: string;
  at: string;
  /** Id of the session if the sealing that the notice reports can be undone. */
  undo: string | null;
}

/** What ctx did or answered. Hashes of commits are shortened and link to the commit. */
function Notice({ text, at, undo }: NoticeProps) {
  const permission = PERMISSION.exec(text);
  const [, asked, decision, option = '', by] = permission ?? [];
  const tone = /^allow/.test(option) ? 'good' : /^reject/.test(option) ? 'bad' : '';
  const parts = text.replace(UNDO_SENTENCE, '').split(/\b([0-9a-f]{64})\b/);
  return (
    <div class="notice" role="note">
      <div class={text.startsWith('/') ? 'mono' : ''} dir="auto">
        {permission ? (
          <>
            Permission asked: {asked}
            {'\n'}
            <Chip tone={tone}>{decision}</Chip> by {by}
          </>
        ) : (
          parts.map((part, n) => (n % 2 ? <CommitLink key={n} id={part} /> : part))
        )}
        {undo && <TaskActions session={undo} actions={[['reopen', 'Undo', 'small']]} />}
      </div>
      <ClockTime at={at} />
    </div>
  );
}

const CommitLink = ({ id }: { id: string }) => (
  <a class="mono" href={hrefTo.commit(id)}>
    {id.slice(0, 10)}
  </a>
);

/** Provider and model of an answer. */
function Author({ message, turn }: { message: Message; turn: Turn | null }) {
  const provider = turn?.provider_id ?? message.provider_id;
  const model = turn?.model ?? message.model;
  return (
    <header class="author">
      <h2>{provider ?? 'Agent'}</h2>
      {model && model !== provider && <span class="model">{model}</span>}
      <ClockTime at={message.created_at} />
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
    <Collapsible name={name} title={title} class="thought">
      {() => <SafeHtml html={renderMarkdown(text)} />}
    </Collapsible>
  );
}

const PLAN_MARKS: Record<string, string> = { completed: '✓', in_progress: '◐' };

/** Agents use different field names in the entries of a plan. */
function Plan({ entries }: { entries: unknown }) {
  const items = Array.isArray(entries) ? entries : [];
  return (
    <div class="plan">
      <span class="output-title">Plan</span>
      <ul>
        {items.slice(0, PLAN_ENTRIES_MAX).map((entry, n) => {
          const fields = (
            typeof entry === 'object' && entry !== null ? entry : { content: entry }
          ) as Record<string, unknown>;
          const status = String(fields.status ?? 'pending');
          return (
            <li key={n} class={status}>
              <span aria-label={humanize(status)} role="img" class="plan-mark">
                {PLAN_MARKS[status] ?? '○'}
              </span>
              {String(fields.content ?? fields.text ?? fields.title ?? JSON.stringify(entry))}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function TurnFooter({ turn, actions }: { turn: Turn; actions: TurnActions | null }) {
  const answers = turn.messages.filter((message) => message.role === 'assistant').map(messageText);
  const answer = answers.join('\n\n').trim();
  const [busy, error, run] = useAction();
  const isPinned = actions?.isPinned(turn.id) ?? turn.pinned;
  const isCompleted = turn.status === 'completed';
  const canRetry = actions?.isIdle && actions.isLastExchange(turn.depth);
  // The error card has a button of its own.
  const hasError = turn.messages.some(({ content }) =>
    content.some(({ type }) => type === 'error'),
  );
  return (
    <footer class="turn-footer">
      <TurnFiles turn={turn} />
      {isPinned && (
        <Chip tone="live">
          <Icon name="pin" /> pinned
        </Chip>
      )}
      {!isCompleted && <Chip tone={turn.status === 'failed' ? 'bad' : 'ask'}>{turn.status}</Chip>}
      {canRetry && !isCompleted && !hasError && (
        <button type="button" class="small" disabled={busy} onClick={() => run(actions.retry)}>
          <Icon name="retry" /> Retry
        </button>
      )}
      <span class="hint">{turnUsage(turn)}</span>
      <span class="actions">
        {answer && <CopyButton text={answer} label="Copy answer" />}
        {actions && (
          <>
            <IconButton
              icon="pin"
              label={isPinned ? 'Unpin' : 'Pin: keep this turn in every request'}
              disabled={busy}
              onClick={() => run(() => actions.setPinned(turn.id, !isPinned))}
            />
            <IconButton
              icon="fork"
              label="Fork here"
              title="Fork here: continue from this turn in a new session"
              disabled={busy}
              onClick={() => run(() => actions.fork(turn.id))}
            />
            {canRetry && isCompleted && (
              <IconButton
                icon="retry"
                label="Retry the last message"
                title="Retry the last message: this answer is kept in the Branches panel"
                disabled={busy}
                onClick={() => run(actions.retry)}
              />
            )}
            {actions.isIdle && !canRetry && (
              <IconButton
                icon="rewind"
                label="Rewind to here"
                title="Rewind to here: the later turns are kept and can be restored"
                disabled={busy}
                onClick={() => run(() => actions.rewind(turn))}
              />
            )}
          </>
        )}
      </span>
      <ErrorMessage text={error} />
    </footer>
  );
}
