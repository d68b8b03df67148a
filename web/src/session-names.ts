// The names of sessions. A fork takes over the title of its origin; until it gets a title of its own
// it is numbered, so that no two rows are the same.
import { computed } from '@preact/signals';
import type { Session } from './api-types';
import { sessionsById } from './session-list-store';

/** The stored name, which is what the user edits. */
export const ownName = (session: Session) => session.title || session.label;

export function sessionName(session: Session): string {
  const number = forkNumber(session);
  return number ? `${ownName(session)} (fork ${number})` : ownName(session);
}

/** The number of a fork without a title of its own; undefined for other sessions. */
export const forkNumber = (session: Session) => forkNumbers.value.get(session.id);

/** The numbers of the known forks that have the title of their origin, by session id. */
const forkNumbers = computed(() => numberForks([...sessionsById.value.values()]));

/** Numbers the forks with the same inherited title, oldest first. Ids are ordered by time. */
export function numberForks(sessions: Session[]): Map<string, number> {
  const titles = new Map(sessions.map((session) => [session.label, session.title]));
  const inherited = sessions.filter(
    ({ origin, title, parent }) =>
      origin === 'fork' && title && parent && titles.get(parent.session) === title,
  );
  const numbers = new Map<string, number>();
  const counts = new Map<string, number>();
  for (const { id, title } of inherited.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const number = (counts.get(title!) ?? 0) + 1;
    counts.set(title!, number);
    numbers.set(id, number);
  }
  return numbers;
}

/** The names of the rows of a list. Rows with the same name get the end of their id. */
export function distinctNames(rows: { key: string | null; name: string }[]): string[] {
  const counts = new Map<string, number>();
  for (const { name } of rows) counts.set(name, (counts.get(name) ?? 0) + 1);
  return rows.map(({ key, name }) =>
    key && counts.get(name)! > 1 ? `${name} (${key.slice(-6)})` : name,
  );
}
