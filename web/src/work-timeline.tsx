// The timeline of a task: steps, messages, questions and decisions in the order of time.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import type { Task } from './api-types';
import { Chip, type Tone } from './chip';
import { Collapsible } from './collapsible';
import { hrefTo } from './route';
import { humanize } from './session-display';
import { ClockTime } from './time';
import { StoredText, VersionDiff } from './work-content';
import { fetchTimeline, STEPS_MAX, type EventKind, type WorkEvent } from './work-data';

const KINDS: [kind: EventKind | 'all', text: string][] = [
  ['all', 'Everything'],
  ['files', 'Files'],
  ['commands', 'Commands'],
  ['questions', 'Questions and permissions'],
  ['messages', 'Messages'],
  ['notes', 'Notes'],
];
/** Events that are drawn at first. */
const PAGE = 200;

export function WorkTimeline({ task }: { task: Task }) {
  const [events, setEvents] = useState<WorkEvent[] | null>(null);
  const [hasMore, setMore] = useState(false);
  const [kind, setKind] = useState<EventKind | 'all'>('all');
  const [shown, setShown] = useState(PAGE);
  const [busy, error, run] = useAction();
  const load = (max: number) =>
    run(async () => {
      const found = await fetchTimeline(task, max);
      setEvents(found.events);
      setMore(found.more);
    });
  useEffect(() => load(STEPS_MAX), [task.id, task.steps]);
  const matching = events?.filter((event) => isShown(event, kind)) ?? [];
  return (
    <section aria-label="Timeline">
      <h2>Timeline</h2>
      <div class="views" role="group" aria-label="Show">
        {KINDS.map(([name, text]) => (
          <button
            key={name}
            type="button"
            class="toggle"
            aria-pressed={kind === name}
            onClick={() => setKind(name)}
          >
            {text}
          </button>
        ))}
      </div>
      <ErrorMessage text={error} />
      {events && matching.length === 0 && <p class="empty">Nothing was recorded.</p>}
      <ol class="timeline">
        {matching.slice(0, shown).map((event) => (
          <li key={event.key} class={`event ${event.what}`} data-kind={event.kind}>
            <ClockTime at={event.at} />
            <div class="event-body">
              <EventView event={event} session={task.session} />
            </div>
          </li>
        ))}
      </ol>
      {matching.length > shown && (
        <button type="button" class="link" onClick={() => setShown(shown + PAGE)}>
          Show {Math.min(PAGE, matching.length - shown)} more
        </button>
      )}
      {hasMore && matching.length <= shown && (
        <button type="button" class="link" disabled={busy} onClick={() => load(Infinity)}>
          Load all {task.steps.toLocaleString()} steps
        </button>
      )}
    </section>
  );
}

/** Relations are derived from notes; they are shown with the notes only. */
const isShown = (event: WorkEvent, kind: EventKind | 'all') =>
  kind === 'all' ? event.what !== 'relation' : event.kind === kind;

const STATE_TONES: Record<string, Tone> = {
  running: 'live',
  awaiting_user: 'ask',
  interrupted: 'ask',
  pending_complete: 'good',
  complete: 'good',
  aborted: 'bad',
};

const NAMES = { note: 'Note', plan: 'Plan', relation: 'Relation' };

function EventView({ event, session }: { event: WorkEvent; session: string }) {
  switch (event.what) {
    case 'started':
      return <Line label="Task started">{event.text}</Line>;
    case 'state':
      return (
        <Line label="State">
          <Chip tone={STATE_TONES[event.text] ?? ''}>{humanize(event.text)}</Chip>
        </Line>
      );
    case 'read':
      return (
        <Collapsible name={event.key} title={<FileTitle label="Read" path={event.path} />}>
          {() => <StoredText content={event.content} title="Content" />}
        </Collapsible>
      );
    case 'write': {
      const label = event.after === null ? 'Deleted' : event.before === null ? 'Wrote' : 'Changed';
      return (
        <Collapsible name={event.key} title={<FileTitle label={label} path={event.path} />}>
          {() => <VersionDiff before={event.before} after={event.after} />}
        </Collapsible>
      );
    }
    case 'command':
      return <Command event={event} />;
    case 'question':
      return <Line label="Question to the user">{event.text}</Line>;
    case 'answer':
      return (
        <Line label={<Answered by={event.by} session={session} turn={event.turn} />}>
          {event.text}
        </Line>
      );
    case 'permission':
      return (
        <Line label="Permission asked">
          {event.text}{' '}
          <Chip
            tone={/^allow/.test(event.option) ? 'good' : /^reject/.test(event.option) ? 'bad' : ''}
          >
            {event.decision}
          </Chip>{' '}
          <Answered by={event.by} session={session} turn={event.turn} />
        </Line>
      );
    case 'message':
      return (
        <Line label={<a href={hrefTo.turn(session, event.turn)}>Message by {event.by}</a>}>
          {event.text}
        </Line>
      );
    default:
      return <Line label={NAMES[event.what]}>{event.text}</Line>;
  }
}

function Answered({ by, session, turn }: { by: string; session: string; turn: string | null }) {
  const text = `answered by ${by}`;
  return turn ? <a href={hrefTo.turn(session, turn)}>{text}</a> : <span class="hint">{text}</span>;
}

const Line = ({ label, children }: { label: ComponentChildren; children: ComponentChildren }) => (
  <p class="event-line">
    <span class="event-label">{label}</span> <span class="event-text">{children}</span>
  </p>
);

const FileTitle = ({ label, path }: { label: string; path: string }) => (
  <>
    <span class="event-label">{label}</span> <code>{path}</code>
  </>
);

function Command({ event }: { event: Extract<WorkEvent, { what: 'command' }> }) {
  const { exit, output } = event;
  const title = (
    <>
      <span class="event-label">Ran</span> <code>{event.line}</code>
      {exit !== null && <Chip tone={exit === 0 ? 'good' : 'bad'}>exit {exit}</Chip>}
    </>
  );
  return (
    <Collapsible name={event.key} title={title} class={exit ? 'bad' : ''}>
      {() =>
        output === null ? (
          <p class="hint">The output was not recorded.</p>
        ) : (
          <StoredText content={output} title="Output" />
        )
      }
    </Collapsible>
  );
}
