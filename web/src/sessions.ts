// The list of sessions: fetched by pages, kept current by the feed of all sessions. What was read is remembered here,
// in this browser: the server does not know who looks.
import { computed, signal } from '@preact/signals';
import { at, get, isProblem, needsToken } from './api';
import { follow } from './follow';
import type { Hit, Provider, Session } from './types';

const PAGE = 50;
/** How long typing is waited for. */
const TYPING_MS = 150;
const SEEN = 'ctx.seen';
/** How many sessions are remembered as read. */
const SEEN_MAX = 2000;

export const known = signal(new Map<string, Session>());
export const words = signal('');
export const archived = signal(false);
export const waitingOnly = signal(false);
export const project = signal('');
export const hidden = signal({ archived: 0, error: 0 });
export const more = signal<string | null>(null);
export const hits = signal<Hit[] | null>(null);
export const listed = signal(false);
export const providers = signal<{ all: Provider[]; fallback: string | null }>({ all: [], fallback: null });

/** Which of the known sessions are shown. */
const shown = signal<Set<string>>(new Set());

export const list = computed(() => {
  const all = [...known.value.values()].filter((session) => shown.value.has(session.id));
  return all.filter(fits).sort((a, b) => b.last_activity_at.localeCompare(a.last_activity_at) || b.id.localeCompare(a.id));
});

export const projects = computed(() => [...new Set([...known.value.values()].map((session) => session.project))].sort());

export const needsHuman = (session: Session) => session.suspensions.length > 0 || session.pending_prompt !== null || session.task?.state.name === 'awaiting_user';

function fits(session: Session): boolean {
  if (!archived.value && session.status === 'archived') return false;
  if (project.value && session.project !== project.value) return false;
  return !waitingOnly.value || needsHuman(session);
}

function query(): string {
  const query = new URLSearchParams({ limit: String(PAGE), status: archived.value ? 'all' : 'active,suspended,error' });
  if (words.value.trim()) query.set('q', words.value.trim());
  if (project.value) query.set('project', project.value);
  if (waitingOnly.value) query.set('waiting', 'true');
  return query.toString();
}

let newest = 0;

/** Fetches the list as it is filtered now. */
export async function fetchList(): Promise<void> {
  const mine = ++newest;
  const said = words.value.trim();
  try {
    const [page, found] = await Promise.all([
      get<{ sessions: Session[]; next_cursor: string | null; hidden: { archived: number; error: number } }>(`/sessions?${query()}`),
      said ? get<{ hits: Hit[] }>(`/search?q=${encodeURIComponent(said)}&limit=20`) : null,
    ]);
    if (mine !== newest) return;
    shown.value = new Set(page.sessions.map((session) => session.id));
    put(page.sessions);
    more.value = page.next_cursor;
    hidden.value = page.hidden;
    hits.value = found?.hits ?? null;
    listed.value = true;
  } catch (error) {
    if (isProblem(error, 'unreachable') && mine === newest) setTimeout(() => mine === newest && fetchList(), 700);
  }
}

export async function fetchMore(): Promise<void> {
  if (!more.value) return;
  const page = await get<{ sessions: Session[]; next_cursor: string | null }>(`/sessions?${query()}&cursor=${encodeURIComponent(more.value)}`);
  shown.value = new Set([...shown.value, ...page.sessions.map((session) => session.id)]);
  put(page.sessions);
  more.value = page.next_cursor;
}

let typing: ReturnType<typeof setTimeout> | undefined;
export function setWords(text: string): void {
  words.value = text;
  clearTimeout(typing);
  typing = setTimeout(() => void fetchList(), TYPING_MS);
}

function put(sessions: Session[]): void {
  const next = new Map(known.value);
  for (const session of sessions) next.set(session.id, session);
  known.value = next;
}

/** A session as it is now, whoever fetched it. */
export function noteSession(session: Session): void {
  put([session]);
  if (!words.value.trim() && !shown.value.has(session.id)) shown.value = new Set([...shown.value, session.id]);
}

export function forget(id: string): void {
  const next = new Map(known.value);
  next.delete(id);
  known.value = next;
}

const stale = new Set<string>();
let looking = false;
/** Fetches sessions that changed, one after another, each once. */
async function look(): Promise<void> {
  if (looking) return;
  looking = true;
  for (const id of stale) {
    stale.delete(id);
    try {
      noteSession(await get<Session>(at(id)));
    } catch (error) {
      if (isProblem(error, 'no_session')) forget(id);
    }
  }
  looking = false;
}

let stop: (() => void) | null = null;

/** Begins, or begins again after a login. */
export async function start(): Promise<void> {
  stop?.();
  let last: number | null = null;
  stop = follow('/events', {
    after: () => last,
    event: (event) => {
      if (event.id !== null) last = event.id;
      if (event.name === 'session.deleted') forget(event.data.session_id ?? event.data.session);
      else if (['run.phase', 'usage.updated', 'tool_call.updated', 'message.completed'].includes(event.name)) return;
      else {
        stale.add(event.data.session);
        void look();
      }
    },
    // What changed before it stood was not told.
    opened: () => void fetchList(),
  });
  await Promise.all([fetchList(), fetchProviders()]);
}

export async function fetchProviders(): Promise<void> {
  try {
    const answer = await get<{ providers: Provider[]; default: string | null }>('/providers');
    providers.value = { all: answer.providers, fallback: answer.default };
  } catch (error) {
    if (!needsToken.value && isProblem(error, 'unreachable')) setTimeout(() => void fetchProviders(), 1000);
  }
}

function readSeen(): Record<string, number> | null {
  try {
    return JSON.parse(localStorage.getItem(SEEN) ?? 'null');
  } catch {
    return null;
  }
}

const firstVisit = readSeen() === null;
export const seen = signal<Record<string, number>>(readSeen() ?? {});

/** What is there at the first visit is not news. */
const visitedAt = firstVisit ? new Date().toISOString() : (localStorage.getItem('ctx.since') ?? '');
if (firstVisit) {
  localStorage.setItem('ctx.since', visitedAt);
  localStorage.setItem(SEEN, '{}');
}

export function isUnread(session: Session): boolean {
  if (session.turn_count === 0) return false;
  const upTo = seen.value[session.id];
  return upTo === undefined ? session.last_activity_at > visitedAt : session.seq > upTo;
}

export function markSeen(session: Session): void {
  if (seen.value[session.id] === session.seq) return;
  const entries = Object.entries({ ...seen.value, [session.id]: session.seq });
  seen.value = Object.fromEntries(entries.slice(-SEEN_MAX));
  localStorage.setItem(SEEN, JSON.stringify(seen.value));
}
