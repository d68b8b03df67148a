// The list of sessions in the sidebar. Only the rows near the viewport are in the page, so a list of
// ten thousand sessions costs no more than a short one.
import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { patch, sessionPath } from './api';
import type { Session } from './api-types';
import { Chip } from './chip';
import { ForkOrigin } from './fork-origin';
import { Icon, IconButton } from './icon';
import { isNarrow } from './preferences';
import { isUnread, unreadTurns } from './read-markers';
import { hrefTo, route } from './route';
import { humanize, sessionState } from './session-display';
import { SessionName } from './session-name';
import { ownName, sessionName } from './session-names';
import type { ListRow } from './session-groups';
import { fetchMoreSessions, nextCursor, updateSession } from './session-list-store';
import { RelativeTime } from './time';
import { showError } from './toast';

/** Rows are drawn this far outside the window, and the next page is fetched at this distance. */
const OVERSCAN_PX = 400;
/** Heights in pixels. The style sheet has the same values. */
const WIDE = { heading: 26, session: 28, fork: 42 };
const NARROW = { heading: 34, session: 44, fork: 56 };

function heightOf(row: ListRow): number {
  const heights = isNarrow.value ? NARROW : WIDE;
  if (row.kind === 'heading') return heights.heading;
  return row.session.origin === 'fork' ? heights.fork : heights.session;
}

export function SessionRows({ rows }: { rows: ListRow[] }) {
  const list = useRef<HTMLUListElement>(null);
  const [[from, to], setRange] = useState<[number, number]>([0, 1200]);
  const starts = [0];
  for (const row of rows) starts.push(starts.at(-1)! + heightOf(row));
  const total = starts.at(-1)!;
  const update = () => {
    const top = list.current?.getBoundingClientRect().top ?? 0;
    // In steps, so that most scroll events draw nothing.
    const step = (y: number) => Math.round(y / 200) * 200;
    const next: [number, number] = [
      step(-top - OVERSCAN_PX),
      step(-top + innerHeight + OVERSCAN_PX),
    ];
    setRange((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
    if (nextCursor.value && next[1] >= total) void fetchMoreSessions().catch(() => undefined);
  };
  useLayoutEffect(update, [rows.length, total]);
  useEffect(() => {
    // Depending on the width, the sidebar or the page scrolls.
    addEventListener('scroll', update, { capture: true, passive: true });
    addEventListener('resize', update);
    return () => {
      removeEventListener('scroll', update, { capture: true });
      removeEventListener('resize', update);
    };
  });
  return (
    <ul
      class="sessions"
      ref={list}
      aria-label="Sessions, most recent first"
      style={{ height: `${total}px` }}
    >
      {rows.map((row, n) => {
        const top = starts[n]!;
        if (starts[n + 1]! < from || top > to) return null;
        return (
          <li key={row.key} style={{ top: `${top}px`, height: `${heightOf(row)}px` }}>
            {row.kind === 'heading' ? (
              <h2>{row.text}</h2>
            ) : (
              <SessionItem session={row.session} indent={row.indent} />
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** The session whose title is edited in the list. */
const editedId = signal<string | null>(null);

function SessionItem({ session, indent }: { session: Session; indent: number }) {
  const shown = route.value;
  const isCurrent =
    (shown.view === 'session' || shown.view === 'compare') &&
    (shown.id === session.id || shown.id === session.label);
  const unread = !isCurrent && isUnread(session);
  const state = sessionState(session);
  const name = sessionName(session);
  if (editedId.value === session.id) return <TitleField session={session} />;
  return (
    <div class="session-item" style={{ paddingLeft: `${Math.min(indent, 4) * 14}px` }}>
      <a
        class={`session ${isCurrent ? 'current' : ''}`}
        href={hrefTo.session(session.id)}
        aria-current={isCurrent ? 'page' : undefined}
        data-session={session.id}
        title={`${name}\n${session.project}`}
        onKeyDown={(event) => {
          if (event.key === 'F2') editedId.value = session.id;
        }}
      >
        <span class={`dot ${state?.tone ?? ''} ${unread ? 'unread' : ''}`} />
        <span class="session-name" dir="auto">
          {session.origin === 'fork' && <Icon name="fork" />}
          <SessionName session={session} />
        </span>
        {unread && <UnreadBadge session={session} />}
        <StateChip session={session} />
        <span class="session-time">
          <RelativeTime at={session.last_activity_at} />
        </span>
        {session.origin === 'fork' && (
          <span class="fork-origin">
            <ForkOrigin session={session} />
          </span>
        )}
      </a>
      <IconButton
        icon="edit"
        label={`Rename ${name}`}
        onClick={() => (editedId.value = session.id)}
      />
    </div>
  );
}

/** Shorter than the name of the state, because there is little room. */
const TASK_STATES: Record<string, string> = { pending_complete: 'to confirm' };

/** One chip at most: the name needs the room. */
function StateChip({ session }: { session: Session }) {
  const state = sessionState(session);
  if (session.waiting > 0) return <Chip tone="live">{session.waiting} queued</Chip>;
  if (state) return <Chip tone={state.tone}>{state.text}</Chip>;
  const task = session.task?.state.name;
  return task ? <Chip>{TASK_STATES[task] ?? humanize(task)}</Chip> : null;
}

function UnreadBadge({ session }: { session: Session }) {
  const count = unreadTurns(session);
  return (
    <span class="unread-badge">
      {count > 99 ? '99+' : count || ''}
      <span class="visually-hidden"> unread</span>
    </span>
  );
}

/** Enter and leaving the field save the title, Escape does not. */
function TitleField({ session }: { session: Session }) {
  const end = (text: string | null) => {
    if (editedId.value !== session.id) return;
    editedId.value = null;
    const title = text?.trim();
    if (!title || title === session.title) return;
    patch<Session>(sessionPath(session.id), { title }).then(updateSession, showError);
  };
  return (
    <input
      class="title-field"
      aria-label="Title"
      dir="auto"
      defaultValue={ownName(session)}
      ref={(field) => field?.focus()}
      onFocus={(event) => event.currentTarget.select()}
      onBlur={(event) => end(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') end(event.currentTarget.value);
        else if (event.key === 'Escape') end(null);
        else return;
        event.stopPropagation();
        event.preventDefault();
      }}
    />
  );
}
