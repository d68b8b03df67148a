// The order of the list of sessions: those that need a reply, then the others by day. A fork stands
// below its origin.
import type { Session } from './api-types';
import { needsUser } from './session-display';

export type ListRow =
  | { kind: 'heading'; key: string; text: string }
  | { kind: 'session'; key: string; session: Session; indent: number };

const DAY_MS = 86_400_000;

/** The name of the day of a time: "Today", "Yesterday", a weekday, or a month. */
export function dayName(at: string, now: number): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const date = new Date(at);
  const time = date.getTime();
  if (time >= midnight) return 'Today';
  // Half a day of tolerance: a day can have 23 or 25 hours.
  const days = Math.ceil((midnight - time) / DAY_MS - 0.5 / 24) || 1;
  if (days <= 1) return 'Yesterday';
  if (days < 7) return date.toLocaleDateString('en', { weekday: 'long' });
  if (days < 30) return 'Last 30 days';
  return date.toLocaleDateString('en', { month: 'long', year: 'numeric' });
}

/** `sessions` must have the most recent activity first. */
export function groupSessions(sessions: Session[], now: number): ListRow[] {
  const rows: ListRow[] = [];
  const waiting = sessions.filter(needsUser);
  if (waiting.length > 0) {
    rows.push({ kind: 'heading', key: 'h:waiting', text: 'Needs a reply' });
    for (const session of waiting) rows.push(sessionRow(session, 0));
  }
  const others = waiting.length ? sessions.filter((session) => !needsUser(session)) : sessions;
  const forks = forksByOrigin(others);
  const nested = new Set([...forks.values()].flat());
  let day = '';
  for (const session of familiesInOrder(others, forks, nested)) {
    const name = dayName(newestActivity(session, forks), now);
    if (name !== day) rows.push({ kind: 'heading', key: `h:${name}`, text: name });
    day = name;
    addFamily(rows, session, forks, 0);
  }
  return rows;
}

const sessionRow = (session: Session, indent: number): ListRow => ({
  kind: 'session',
  key: session.id,
  session,
  indent,
});

/** The listed forks of each listed session. */
function forksByOrigin(sessions: Session[]): Map<Session, Session[]> {
  const byLabel = new Map(sessions.map((session) => [session.label, session]));
  const forks = new Map<Session, Session[]>();
  for (const session of sessions) {
    const origin = session.origin === 'fork' && byLabel.get(session.parent?.session ?? '');
    if (!origin || origin === session) continue;
    forks.set(origin, [...(forks.get(origin) ?? []), session]);
  }
  return forks;
}

function newestActivity(session: Session, forks: Map<Session, Session[]>): string {
  let newest = session.last_activity_at;
  for (const fork of forks.get(session) ?? []) {
    const at = newestActivity(fork, forks);
    if (at > newest) newest = at;
  }
  return newest;
}

/** The sessions that are no nested forks, by the newest activity of each with its forks. */
function familiesInOrder(
  sessions: Session[],
  forks: Map<Session, Session[]>,
  nested: Set<Session>,
): Session[] {
  const roots = sessions.filter((session) => !nested.has(session));
  if (forks.size === 0) return roots;
  const at = new Map(roots.map((session) => [session, newestActivity(session, forks)]));
  return roots.sort((a, b) => (at.get(a)! < at.get(b)! ? 1 : at.get(a)! > at.get(b)! ? -1 : 0));
}

function addFamily(
  rows: ListRow[],
  session: Session,
  forks: Map<Session, Session[]>,
  indent: number,
): void {
  rows.push(sessionRow(session, indent));
  for (const fork of forks.get(session) ?? []) addFamily(rows, fork, forks, indent + 1);
}
