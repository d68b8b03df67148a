// The list of sessions: loaded in pages, filtered, and kept current by the feed of all sessions.
import { computed, signal } from '@preact/signals';
import { get, hasErrorCode, sessionPath } from './api';
import type { Session } from './api-types';
import { followEvents } from './event-stream';
import { fetchProviders } from './provider-store';
import { search } from './search-store';
import { needsUser } from './session-display';
import { groupSessions } from './session-groups';
import { now } from './time';

const PAGE_SIZE = 50;
/** Pause after the last keystroke before the search request is sent. */
const SEARCH_DELAY_MS = 150;
const RETRY_MS = 700;
/** The list is fetched when the feed is open, so that no change between both is lost. If the feed
 * needs longer than this, the list does not wait for it. */
const FEED_WAIT_MS = 2000;
/** Events that do not change what the list shows. */
const IGNORED_EVENTS = ['run.phase', 'usage.updated', 'tool_call.updated', 'message.completed'];

/** Every session that was fetched, listed or not. */
export const sessionsById = signal(new Map<string, Session>());
export const searchText = signal('');
export const showArchived = signal(false);
export const onlyWaiting = signal(false);
export const projectFilter = signal('');
/** Number of sessions that the status filter hides. */
export const hiddenCounts = signal({ archived: 0, error: 0 });
export const nextCursor = signal<string | null>(null);
export const isLoaded = signal(false);

/** Sessions that the user deleted and that are deleted on the server in a moment. */
export const deletedIds = signal<ReadonlySet<string>>(new Set());

/** Ids of the sessions that the current query returned, and of those that were created since. */
const listedIds = signal<Set<string>>(new Set());

/** Most recent activity first. */
export const listedSessions = computed(() =>
  [...sessionsById.value.values()]
    .filter(
      (session) =>
        (listedIds.value.has(session.id) || isWaitingBeside(session)) && matchesFilters(session),
    )
    .sort(byActivity),
);

function byActivity(a: Session, b: Session): number {
  const [left, right] = [b.last_activity_at, a.last_activity_at];
  if (left !== right) return left < right ? -1 : 1;
  return b.id < a.id ? -1 : 1;
}

/** Sessions that wait for a person. They are fetched separately, so that those that are not among
 * the most recent ones are listed too. */
const waitingIds = signal<ReadonlySet<string>>(new Set());

/** The rows of the list. A search shows its hits in the order of activity. */
export const listRows = computed(() => groupSessions(listedSessions.value, now.value));

export const projectNames = computed(() =>
  [...new Set([...sessionsById.value.values()].map((session) => session.project))].sort(),
);

const isWaitingBeside = (session: Session) =>
  waitingIds.value.has(session.id) && !searchText.value.trim() && needsUser(session);

function matchesFilters(session: Session): boolean {
  if (deletedIds.value.has(session.id)) return false;
  if (!showArchived.value && session.status === 'archived') return false;
  if (projectFilter.value && session.project !== projectFilter.value) return false;
  return !onlyWaiting.value || needsUser(session);
}

function listQuery(): string {
  const status = showArchived.value ? 'all' : 'active,suspended,error';
  const query = new URLSearchParams({ limit: String(PAGE_SIZE), status });
  if (searchText.value.trim()) query.set('q', searchText.value.trim());
  if (projectFilter.value) query.set('project', projectFilter.value);
  if (onlyWaiting.value) query.set('waiting', 'true');
  return query.toString();
}

interface Page {
  sessions: Session[];
  next_cursor: string | null;
  hidden: { archived: number; error: number };
}

let latestFetch = 0;

/** Fetches the first page with the current filters. A response that arrives late is ignored. */
export async function fetchSessions(): Promise<void> {
  const thisFetch = ++latestFetch;
  try {
    const page = await get<Page>(`/sessions?${listQuery()}`);
    if (thisFetch !== latestFetch) return;
    listedIds.value = new Set(page.sessions.map((session) => session.id));
    storeSessions(page.sessions);
    nextCursor.value = page.next_cursor;
    hiddenCounts.value = page.hidden;
    isLoaded.value = true;
    if (page.next_cursor) void fetchWaiting();
  } catch (error) {
    if (hasErrorCode(error, 'unreachable') && thisFetch === latestFetch) {
      setTimeout(() => thisFetch === latestFetch && fetchSessions(), RETRY_MS);
    }
  }
}

async function fetchWaiting(): Promise<void> {
  const path = `/sessions?waiting=true&limit=${PAGE_SIZE}`;
  const page = await get<Page>(path).catch(() => null);
  if (!page) return;
  waitingIds.value = new Set(page.sessions.map((session) => session.id));
  storeSessions(page.sessions);
}

let isFetchingMore = false;

/** Fetches the next page. Calls during a fetch do nothing. */
export async function fetchMoreSessions(): Promise<void> {
  if (!nextCursor.value || isFetchingMore) return;
  const thisFetch = latestFetch;
  const cursor = encodeURIComponent(nextCursor.value);
  isFetchingMore = true;
  const request = get<Page>(`/sessions?${listQuery()}&cursor=${cursor}`);
  const page = await request.finally(() => (isFetchingMore = false));
  if (thisFetch !== latestFetch) return;
  listedIds.value = new Set([...listedIds.value, ...page.sessions.map((session) => session.id)]);
  storeSessions(page.sessions);
  nextCursor.value = page.next_cursor;
}

let searchTimer: ReturnType<typeof setTimeout> | undefined;
export function setSearchText(text: string): void {
  searchText.value = text;
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    void fetchSessions();
    void search(text);
  }, SEARCH_DELAY_MS);
}

/** Stores sessions without listing them. */
export function storeSessions(sessions: Session[]): void {
  const next = new Map(sessionsById.value);
  for (const session of sessions) next.set(session.id, session);
  sessionsById.value = next;
}

/** Stores the current state of one session and lists it, unless a search is active. */
export function updateSession(session: Session): void {
  storeSessions([session]);
  if (!searchText.value.trim() && !listedIds.value.has(session.id)) {
    listedIds.value = new Set([...listedIds.value, session.id]);
  }
}

function removeSession(id: string): void {
  const next = new Map(sessionsById.value);
  next.delete(id);
  sessionsById.value = next;
}

const changedIds = new Set<string>();
let isRefetching = false;

/** Fetches the changed sessions one after another. Several changes of one session are one fetch. */
async function refetchChanged(): Promise<void> {
  if (isRefetching) return;
  isRefetching = true;
  for (const id of changedIds) {
    changedIds.delete(id);
    try {
      updateSession(await get<Session>(sessionPath(id)));
    } catch (error) {
      if (hasErrorCode(error, 'no_session')) removeSession(id);
    }
  }
  isRefetching = false;
}

let stopFollowing: (() => void) | null = null;

/** Loads the list and follows the feed of all sessions. Called again after a login. */
export async function startSessionList(): Promise<void> {
  stopFollowing?.();
  let lastEventId: number | null = null;
  stopFollowing = followEvents('/events', {
    lastEventId: () => lastEventId,
    onEvent: (event) => {
      if (event.id !== null) lastEventId = event.id;
      if (IGNORED_EVENTS.includes(event.name)) return;
      if (event.name === 'session.deleted') {
        removeSession(event.data.session_id ?? event.data.session);
      } else {
        changedIds.add(event.data.session);
        void refetchChanged();
      }
    },
    // Changes made while the page was not connected are not in the stream.
    onOpen: () => {
      clearTimeout(waiting);
      void fetchSessions();
    },
  });
  const waiting = setTimeout(() => void fetchSessions(), FEED_WAIT_MS);
  await fetchProviders();
}
