// People, agents and services that send messages from channels: their addresses and sessions.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get, post, remove } from './api';
import type { Entity, Identity, Session } from './api-types';
import { Chip } from './chip';
import { LinkToList } from './icon';
import { MergeButton } from './merge-dialog';
import { hrefTo } from './route';
import { plural, sessionState } from './session-display';
import { sessionName } from './session-names';
import { RelativeTime } from './time';

const PAGE_SIZE = 20;
const KINDS = ['person', 'agent', 'service'];

interface Page {
  entities: Entity[];
  next_cursor: string | null;
}

/** All entities, or one of them. */
export function PeopleView({ id }: { id: string | null }) {
  const [entities, setEntities] = useState<Entity[] | null>(null);
  const [nextCursor, setNextCursor] = useState<string | null>(null);
  const [busy, error, run] = useAction();
  const load = (cursor: string | null) =>
    run(async () => {
      const page = id
        ? { entities: [await get<Entity>(entityPath(id))], next_cursor: null }
        : await get<Page>(`/entities?limit=${PAGE_SIZE}${cursor ? `&cursor=${cursor}` : ''}`);
      setEntities((before) => [...(cursor ? (before ?? []) : []), ...page.entities]);
      setNextCursor(page.next_cursor);
    });
  useEffect(() => load(null), []);
  const replace = (changed: Entity) =>
    setEntities((before) =>
      before!.map((one) => (one.id === changed.id ? changed : withoutAddressesOf(changed, one))),
    );
  return (
    <main class="page" aria-label="People">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>People</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="List of people">
        <div class="column">
          {id ? <a href={hrefTo.people}>All people</a> : <AddEntity onAdd={() => load(null)} />}
          <ErrorMessage text={error} />
          {entities?.length === 0 && (
            <p class="empty">
              Nobody yet. Senders on channels stay unknown until an address is linked to a person,
              agent or service. Add one above, or with{' '}
              <code>ctx entity add Mom --relationship family</code>.
            </p>
          )}
          <ul class="cards">
            {entities?.map((entity) => (
              <EntityCard
                key={entity.id}
                entity={entity}
                onChange={replace}
                onMerge={() => load(null)}
              />
            ))}
          </ul>
          {nextCursor && (
            <button type="button" class="link" disabled={busy} onClick={() => load(nextCursor)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </main>
  );
}

const addressKey = ({ channel, account_id, sender_id }: Identity) =>
  JSON.stringify([channel, account_id, sender_id]);

/** `one` without the addresses that `changed` has: a claimed address can be linked to another. */
function withoutAddressesOf(changed: Entity, one: Entity): Entity {
  const taken = changed.identities.map(addressKey);
  const identities = one.identities.filter((identity) => !taken.includes(addressKey(identity)));
  return identities.length === one.identities.length ? one : { ...one, identities };
}

const entityPath = (id: string, rest = '') => `/entities/${encodeURIComponent(id)}${rest}`;

interface CardProps {
  entity: Entity;
  onChange: (entity: Entity) => void;
  onMerge: () => void;
}

function EntityCard({ entity, onChange, onMerge }: CardProps) {
  const { identities } = entity;
  const refresh = async () => onChange(await get<Entity>(entityPath(entity.id)));
  return (
    <li class="card entity" data-entity={entity.id}>
      <h2>
        <a class="plain" href={hrefTo.entity(entity.id)}>
          <bdi>{entity.name}</bdi>
        </a>
        <Chip>{entity.kind}</Chip>
        {entity.relationship && (
          <Chip>
            <bdi>{entity.relationship}</bdi>
          </Chip>
        )}
        {entity.owner && <Chip tone="good">owner</Chip>}
      </h2>
      {entity.merged_into ? (
        <p>
          Merged into <a href={hrefTo.entity(entity.merged_into)}>another one</a>, which has the
          addresses and sessions.
        </p>
      ) : (
        <>
          <h3>Addresses</h3>
          {identities.length === 0 && (
            <p class="empty">No addresses. Messages are recognized after one is linked.</p>
          )}
          <ul class="lines">
            {identities.map((identity) => (
              <Address
                key={addressKey(identity)}
                entity={entity}
                identity={identity}
                onUnlink={refresh}
              />
            ))}
          </ul>
          <Sessions entity={entity} />
          <LinkAddress entity={entity} onLink={refresh} />
          <MergeButton entity={entity} onMerge={onMerge} />
        </>
      )}
    </li>
  );
}

interface AddressProps {
  entity: Entity;
  identity: Identity;
  onUnlink: () => Promise<void>;
}

function Address({ entity, identity, onUnlink }: AddressProps) {
  const [isConfirming, setConfirming] = useState(false);
  const [busy, error, run] = useAction();
  const { channel, account_id, sender_id, verified } = identity;
  const unlink = () =>
    run(async () => {
      const query = new URLSearchParams({ channel, sender_id, ...(account_id && { account_id }) });
      await remove(entityPath(entity.id, `/identities?${query}`));
      await onUnlink();
    });
  return (
    <li>
      <span class="mono">
        {channel}
        {account_id && ` / ${account_id}`}
      </span>
      <bdi class="mono sender">{sender_id}</bdi>
      <Chip tone={verified ? 'good' : 'ask'}>{verified ? 'verified' : 'claimed'}</Chip>
      {isConfirming ? (
        <>
          <button type="button" class="link danger" disabled={busy} onClick={unlink}>
            Unlink this address
          </button>
          <button type="button" class="link" onClick={() => setConfirming(false)}>
            Keep
          </button>
        </>
      ) : (
        <button
          type="button"
          class="link"
          aria-label={`Unlink ${channel} ${sender_id}`}
          onClick={() => setConfirming(true)}
        >
          Unlink
        </button>
      )}
      <ErrorMessage text={error} />
    </li>
  );
}

function Sessions({ entity }: { entity: Entity }) {
  const [sessions, setSessions] = useState<Session[] | null>(null);
  const [, error, run] = useAction();
  useEffect(
    () =>
      run(async () => {
        const path = entityPath(entity.id, '/sessions');
        setSessions((await get<{ sessions: Session[] }>(path)).sessions);
      }),
    [entity],
  );
  return (
    <>
      <h3>Sessions</h3>
      <ErrorMessage text={error} />
      {sessions?.length === 0 && <p class="empty">No direct messages yet.</p>}
      <ul class="lines">
        {sessions?.map((session) => (
          <SessionLine key={session.id} session={session} />
        ))}
      </ul>
    </>
  );
}

function SessionLine({ session }: { session: Session }) {
  const state = sessionState(session);
  return (
    <li>
      <a href={hrefTo.session(session.id)}>{sessionName(session)}</a>
      {session.routing.merged_into && <Chip>merged</Chip>}
      {state && <Chip tone={state.tone}>{state.text}</Chip>}
      <span class="hint">
        {plural(session.turn_count, 'turn')}
        {session.routing.policy && ` · policy ${session.routing.policy}`} ·{' '}
        <RelativeTime at={session.last_activity_at} ago />
      </span>
    </li>
  );
}

function LinkAddress({ entity, onLink }: { entity: Entity; onLink: () => Promise<void> }) {
  const [channel, setChannel] = useState('');
  const [account, setAccount] = useState('');
  const [sender, setSender] = useState('');
  const [verified, setVerified] = useState(true);
  const [busy, error, run] = useAction();
  const link = (event: Event) => {
    event.preventDefault();
    run(async () => {
      await post(entityPath(entity.id, '/identities'), {
        channel,
        sender_id: sender,
        verified,
        ...(account && { account_id: account }),
      });
      setSender('');
      await onLink();
    });
  };
  return (
    <details class="settings">
      <summary>Link an address</summary>
      <form onSubmit={link}>
        <Field label="Channel" value={channel} onInput={setChannel} placeholder="irc" required />
        <Field
          label="Account of ctx on the channel"
          value={account}
          onInput={setAccount}
          placeholder="only if ctx has several"
        />
        <Field label="Sender id" value={sender} onInput={setSender} required />
        <Check
          label="Verified: messages from this address are from this entity"
          value={verified}
          onChange={setVerified}
        />
        <ErrorMessage text={error} />
        <div class="buttons">
          <button type="submit" disabled={busy}>
            Link
          </button>
        </div>
      </form>
    </details>
  );
}

function AddEntity({ onAdd }: { onAdd: () => void }) {
  const [name, setName] = useState('');
  const [kind, setKind] = useState(KINDS[0]!);
  const [relationship, setRelationship] = useState('');
  const [owner, setOwner] = useState(false);
  const [busy, error, run] = useAction();
  const add = (event: Event) => {
    event.preventDefault();
    run(async () => {
      await post('/entities', { name, kind, owner, ...(relationship && { relationship }) });
      setName('');
      setRelationship('');
      setOwner(false);
      onAdd();
    });
  };
  return (
    <details class="settings">
      <summary>Add a person, agent or service</summary>
      <form onSubmit={add}>
        <Field label="Name" value={name} onInput={setName} required />
        <label>
          Kind
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {KINDS.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <Field
          label="Relationship"
          value={relationship}
          onInput={setRelationship}
          placeholder="such as family; policies can match it"
        />
        <Check label="Owner of this store" value={owner} onChange={setOwner} />
        <ErrorMessage text={error} />
        <div class="buttons">
          <button type="submit" disabled={busy}>
            Add
          </button>
        </div>
      </form>
    </details>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  placeholder?: string;
  required?: boolean;
}

const Field = ({ label, onInput, ...rest }: FieldProps) => (
  <label>
    {label}
    <input onInput={(event) => onInput(event.currentTarget.value)} spellcheck={false} {...rest} />
  </label>
);

interface CheckProps {
  label: string;
  value: boolean;
  onChange: (value: boolean) => void;
}

const Check = ({ label, value, onChange }: CheckProps) => (
  <label class="check">
    <input
      type="checkbox"
      checked={value}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />{' '}
    {label}
  </label>
);
