// Where a fork comes from: its origin and the turn at which it starts.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { get, sessionPath } from './api';
import type { Session, Turn } from './api-types';
import { sessionsById, storeSessions } from './session-list-store';
import { sessionName } from './session-names';

/** Depth of the turns at which the drawn forks start; null while it is being fetched. */
const depths = signal(new Map<string, number | null>());
/** Labels of origins that were requested, because they are not among the listed sessions. */
const requestedOrigins = new Set<string>();

const findOrigin = (label: string | undefined) =>
  [...sessionsById.value.values()].find((one) => one.label === label);

function fetchOrigin(label: string): void {
  if (requestedOrigins.has(label) || findOrigin(label)) return;
  requestedOrigins.add(label);
  get<Session>(sessionPath(label)).then(
    (origin) => storeSessions([origin]),
    () => undefined,
  );
}

function fetchDepth(turn: string): void {
  if (depths.value.has(turn)) return;
  const store = (depth: number | null) => (depths.value = new Map(depths.value).set(turn, depth));
  store(null);
  get<Turn>(`/turns/${turn}`).then(
    ({ depth }) => store(depth),
    () => undefined,
  );
}

/** "forked from … at turn …" */
export function ForkOrigin({ session }: { session: Session }) {
  const { parent } = session;
  const turn = parent?.turn ?? null;
  useEffect(() => {
    if (parent) fetchOrigin(parent.session);
    if (turn) fetchDepth(turn);
  }, [parent?.session, turn]);
  if (!parent) return <>fork</>;
  const origin = findOrigin(parent.session);
  const depth = turn && depths.value.get(turn);
  return (
    <>
      forked from <span class="origin-name">{origin ? sessionName(origin) : parent.session}</span>
      {depth ? ` at turn ${depth}` : ''}
    </>
  );
}
