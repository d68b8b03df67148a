// Where a fork comes from: its origin and the turn at which it starts.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { get } from './api';
import type { Session, Turn } from './api-types';
import { sessionName } from './session-display';
import { sessionsById } from './session-list-store';

/** Depth of the turns at which the drawn forks start; null while it is being fetched. */
const depths = signal(new Map<string, number | null>());

/** "forked from … at turn …" */
export function ForkOrigin({ session }: { session: Session }) {
  const { parent } = session;
  const turn = parent?.turn ?? null;
  useEffect(() => {
    if (!turn || depths.value.has(turn)) return;
    const store = (depth: number | null) => (depths.value = new Map(depths.value).set(turn, depth));
    store(null);
    get<Turn>(`/turns/${turn}`).then(
      ({ depth }) => store(depth),
      () => undefined,
    );
  }, [turn]);
  if (!parent) return <>fork</>;
  const origin = [...sessionsById.value.values()].find((one) => one.label === parent.session);
  const depth = turn && depths.value.get(turn);
  return (
    <>
      forked from <span class="origin-name">{origin ? sessionName(origin) : parent.session}</span>
      {depth ? ` at turn ${depth}` : ''}
    </>
  );
}
