// The deliveries to channels, newest first: their state, failures and retries.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get, post } from './api';
import type { Delivery } from './api-types';
import { Chip, type Tone } from './chip';
import { checkDeadDeliveries } from './dead-deliveries';
import { LinkToList } from './icon';
import { hrefTo } from './route';
import { humanize, plural } from './session-display';
import { RelativeTime } from './time';

const PAGE_SIZE = 25;
/** Bounds of the pause before a pending delivery is fetched again. */
const REFRESH_MIN_MS = 1_000;
const REFRESH_MAX_MS = 60_000;
/** The error of a delivery that waits until its channel is configured. */
const NO_CHANNEL = 'no_channel';
const EXCERPT_MAX_CHARS = 300;

/** The statuses of each filter, listed one after another; '' is any status. */
const FILTERS: Record<string, [text: string, statuses: string[]]> = {
  all: ['All', ['']],
  'failed-first': ['Failed first', ['dead', 'pending', 'delivered']],
  dead: ['Failed', ['dead']],
  pending: ['Pending', ['pending']],
  delivered: ['Delivered', ['delivered']],
};

const STATUSES: Record<string, [text: string, tone: Tone]> = {
  pending: ['pending', 'live'],
  delivered: ['delivered', 'good'],
  dead: ['failed', 'bad'],
};

interface Page {
  deliveries: Delivery[];
  next_cursor: string | null;
}

/** The part of the list to fetch next. */
interface Place {
  /** Index into the statuses of the filter. */
  index: number;
  cursor: string | null;
}

export function DeliveriesView({ filter, session }: { filter: string; session: string | null }) {
  const [deliveries, setDeliveries] = useState<Delivery[]>([]);
  /** Null after the last page. */
  const [next, setNext] = useState<Place | null>(null);
  const [isLoaded, setLoaded] = useState(false);
  const [busy, error, run] = useAction();
  const [, statuses] = FILTERS[filter] ?? FILTERS.all!;
  const load = (from: Place | null) =>
    run(async () => {
      const found: Delivery[] = [];
      let place: Place | null = from;
      while (place && found.length < PAGE_SIZE) {
        const page: Page = await get(`/outbox?${query(statuses[place.index]!, session, place)}`);
        found.push(...page.deliveries);
        place = placeAfter(place, page, statuses.length);
      }
      setDeliveries((before) => [...before, ...found.filter((one) => !before.some(isSame(one)))]);
      setNext(place);
      setLoaded(true);
    });
  useEffect(() => {
    load({ index: 0, cursor: null });
    void checkDeadDeliveries();
  }, []);
  const replace = (changed: Delivery) =>
    setDeliveries((before) => before.map((one) => (one.id === changed.id ? changed : one)));
  return (
    <main class="page" aria-label="Deliveries">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>Deliveries</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="List of deliveries">
        <div class="column">
          <ul class="views" aria-label="Filter by status">
            {Object.entries(FILTERS).map(([name, [text]]) => (
              <li key={name}>
                <a
                  class="toggle"
                  href={hrefTo.deliveriesWith(name, session)}
                  aria-current={name === filter ? 'true' : undefined}
                >
                  {text}
                </a>
              </li>
            ))}
          </ul>
          {session && (
            <p class="hint">
              Only deliveries of <a href={hrefTo.session(session)}>one session</a>.{' '}
              <a href={hrefTo.deliveriesWith(filter, null)}>Show those of all sessions</a>
            </p>
          )}
          <ErrorMessage text={error} />
          {isLoaded && deliveries.length === 0 && <NoDeliveries statuses={statuses} />}
          <ul class="cards">
            {deliveries.map((delivery) => (
              <DeliveryItem key={delivery.id} delivery={delivery} onChange={replace} />
            ))}
          </ul>
          {next && isLoaded && (
            <button type="button" class="link" disabled={busy} onClick={() => load(next)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </main>
  );
}

const isSame = (one: Delivery) => (other: Delivery) => one.id === other.id;

function query(status: string, session: string | null, place: Place): string {
  const query = new URLSearchParams({ limit: String(PAGE_SIZE) });
  if (status) query.set('status', status);
  if (session) query.set('session', session);
  if (place.cursor) query.set('cursor', place.cursor);
  return query.toString();
}

function placeAfter(place: Place, page: Page, statusCount: number): Place | null {
  if (page.next_cursor) return { ...place, cursor: page.next_cursor };
  return place.index + 1 < statusCount ? { index: place.index + 1, cursor: null } : null;
}

function NoDeliveries({ statuses }: { statuses: string[] }) {
  const only = statuses.length === 1 && statuses[0] ? STATUSES[statuses[0]] : null;
  if (only) return <p class="empty">No deliveries are {only[0]}.</p>;
  return (
    <p class="empty">
      No deliveries yet. The answer to a message that came in by <code>POST /api/inbound</code> is
      delivered to its channel, if <code>ctx.toml</code> has <code>[channels.NAME]</code> with a{' '}
      <code>url</code>.
    </p>
  );
}

interface ItemProps {
  delivery: Delivery;
  onChange: (delivery: Delivery) => void;
}

function DeliveryItem({ delivery, onChange }: ItemProps) {
  const [busy, error, run] = useAction();
  const { to, status } = delivery;
  useEffect(() => {
    if (!delivery.next_attempt_at) return;
    const wait = Date.parse(delivery.next_attempt_at) - Date.now() + REFRESH_MIN_MS;
    const timer = setTimeout(
      () => run(async () => onChange(await get<Delivery>(`/outbox/${delivery.id}`))),
      Math.min(REFRESH_MAX_MS, Math.max(REFRESH_MIN_MS, wait)),
    );
    return () => clearTimeout(timer);
  }, [delivery]);
  useEffect(() => void (status === 'dead' && checkDeadDeliveries()), [status]);
  const retry = () =>
    run(async () => {
      onChange(await post<Delivery>(`/outbox/${delivery.id}/retry`));
      await checkDeadDeliveries();
    });
  const [text, tone] = STATUSES[status] ?? [status, ''];
  return (
    <li class="card delivery" data-delivery={delivery.id}>
      <h2>
        {to.channel}
        {to.account_id && ` / ${to.account_id}`} → <bdi>{to.peer_id}</bdi>
      </h2>
      <p class="task-line">
        <Chip tone={tone}>{text}</Chip>
        <span class="hint">
          {humanize(delivery.kind)}
          {to.peer_kind !== 'dm' && ` to a ${to.peer_kind}`}
          {to.thread_id && `, thread ${to.thread_id}`} · {plural(delivery.attempts, 'attempt')} ·{' '}
          <RelativeTime at={delivery.delivered_at ?? delivery.created_at} ago />
          {delivery.next_attempt_at &&
            delivery.last_error !== NO_CHANNEL &&
            ` · next attempt ${new Date(delivery.next_attempt_at).toLocaleTimeString()}`}
        </span>
      </p>
      {delivery.last_error && status !== 'delivered' && (
        <p class="error-message">{errorOf(delivery)}</p>
      )}
      <p class="snippet">{excerpt(delivery.text)}</p>
      <p class="hint">
        Session <a href={hrefTo.session(delivery.session)}>{delivery.label}</a>
      </p>
      {status === 'dead' && (
        <div class="buttons">
          <button type="button" class="small" disabled={busy} onClick={retry}>
            Retry
          </button>
        </div>
      )}
      <ErrorMessage text={error} />
    </li>
  );
}

function errorOf({ last_error: error, to }: Delivery): string {
  return error === NO_CHANNEL
    ? `${NO_CHANNEL}: [channels.${to.channel}] is not in ctx.toml. Add it and restart the server.`
    : error!;
}

const excerpt = (text: string) =>
  text.length > EXCERPT_MAX_CHARS ? `${text.slice(0, EXCERPT_MAX_CHARS)}…` : text;
