// The dialog that merges an entity into another one. A merge cannot be undone.
import { useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get, post } from './api';
import type { Entity, Session } from './api-types';
import { plural } from './session-display';
import { sessionName } from './session-names';

const PAGE_SIZE = 100;
/** Entities that the dialog offers at most. */
const CHOICES_MAX = 1_000;

/** `entity` is the one that stays. */
export function MergeButton({ entity, onMerge }: { entity: Entity; onMerge: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [others, setOthers] = useState<Entity[]>([]);
  const [from, setFrom] = useState<Entity | null>(null);
  const [sessions, setSessions] = useState<[here: Session[], there: Session[]] | null>(null);
  const [busy, error, run] = useAction();
  const open = () => {
    setFrom(null);
    dialog.current?.showModal();
    run(async () => setOthers((await fetchAll()).filter((one) => one.id !== entity.id)));
  };
  const choose = (id: string) => {
    const chosen = others.find((one) => one.id === id) ?? null;
    setFrom(chosen);
    setSessions(null);
    if (chosen)
      run(async () =>
        setSessions(await Promise.all([currentSessions(entity), currentSessions(chosen)])),
      );
  };
  const merge = (event: Event) => {
    event.preventDefault();
    run(async () => {
      await post('/entities/merge', { into: entity.id, from: from!.id });
      dialog.current?.close();
      onMerge();
    });
  };
  const titleId = `merge-${entity.id}`;
  return (
    <>
      <button type="button" class="link" onClick={open}>
        Merge another one into this…
      </button>
      <dialog ref={dialog} aria-labelledby={titleId}>
        <form onSubmit={merge}>
          <h2 id={titleId}>
            Merge into “<bdi>{entity.name}</bdi>”
          </h2>
          <label>
            Which one is the same?
            <select value={from?.id ?? ''} onChange={(event) => choose(event.currentTarget.value)}>
              <option value="">Choose…</option>
              {others.map((one) => (
                <option key={one.id} value={one.id}>
                  {describe(one)}
                </option>
              ))}
            </select>
          </label>
          {others.length >= CHOICES_MAX - 1 && (
            <p class="hint">
              Only the oldest {CHOICES_MAX} are offered. Use <code>ctx entity merge</code> for
              others.
            </p>
          )}
          {from && <Consequences entity={entity} from={from} sessions={sessions} />}
          <ErrorMessage text={error} />
          <div class="buttons">
            <button type="button" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
            <button type="submit" class="danger" disabled={busy || !sessions}>
              Merge
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}

interface ConsequencesProps {
  entity: Entity;
  from: Entity;
  sessions: [here: Session[], there: Session[]] | null;
}

const Consequences = ({ entity, from, sessions }: ConsequencesProps) => (
  <div class="consequences">
    <p>
      All addresses and sessions of “<bdi>{from.name}</bdi>” will belong to “
      <bdi>{entity.name}</bdi>”, and “<bdi>{from.name}</bdi>” is no longer listed.
      {from.owner && !entity.owner && (
        <>
          {' '}
          “<bdi>{entity.name}</bdi>” becomes an owner of this store.
        </>
      )}
    </p>
    <p>
      If both have a session with the same persona, the one with more turns receives the messages of
      both. The other one keeps its history under a label that ends in <code>~merged</code>; no
      turns are moved. This cannot be undone.
    </p>
    {sessions && (
      <ul class="lines">
        {sessions.map((list, index) =>
          list.map((session) => (
            <li key={session.id}>
              {sessionName(session)}
              <span class="hint">
                of <bdi>{[entity, from][index]!.name}</bdi> · {plural(session.turn_count, 'turn')} ·{' '}
                {session.label}
              </span>
            </li>
          )),
        )}
        {sessions.flat().length === 0 && <li class="hint">Neither has a session yet.</li>}
      </ul>
    )}
  </div>
);

/** The sessions of an entity that receive messages. */
async function currentSessions(entity: Entity): Promise<Session[]> {
  const { sessions } = await get<{ sessions: Session[] }>(`/entities/${entity.id}/sessions`);
  return sessions.filter((session) => !session.routing.merged_into);
}

/** The entities, oldest first, up to `CHOICES_MAX`. */
async function fetchAll(): Promise<Entity[]> {
  const entities: Entity[] = [];
  let cursor: string | null = '';
  while (cursor !== null && entities.length < CHOICES_MAX) {
    const path: string = `/entities?limit=${PAGE_SIZE}${cursor && `&cursor=${cursor}`}`;
    const page: { entities: Entity[]; next_cursor: string | null } = await get(path);
    entities.push(...page.entities);
    cursor = page.next_cursor;
  }
  return entities;
}

/** The name and, because names can repeat, the kind and the first address. */
function describe({ name, kind, identities: [first] }: Entity): string {
  return `${name} (${kind}${first ? `, ${first.channel} ${first.sender_id}` : ''})`;
}
