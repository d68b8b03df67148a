// Which sessions have unread activity. The server does not know who reads, so the markers are kept
// in the local storage of this browser: the last seen event number per session.
import { signal } from '@preact/signals';
import type { Session } from './api-types';

const MARKERS_KEY = 'ctx.seen';
const FIRST_VISIT_KEY = 'ctx.since';
/** The oldest markers are dropped when there are more. */
const MARKERS_MAX = 2000;

function loadMarkers(): Record<string, number> | null {
  try {
    return JSON.parse(localStorage.getItem(MARKERS_KEY) ?? 'null');
  } catch {
    return null;
  }
}

const stored = loadMarkers();
const lastSeen = signal<Record<string, number>>(stored ?? {});

/** Sessions whose last activity was before the first visit count as read. */
const firstVisitAt = stored
  ? (localStorage.getItem(FIRST_VISIT_KEY) ?? '')
  : new Date().toISOString();
if (!stored) {
  localStorage.setItem(FIRST_VISIT_KEY, firstVisitAt);
  localStorage.setItem(MARKERS_KEY, '{}');
}

export function isUnread(session: Session): boolean {
  if (session.turn_count === 0) return false;
  const seq = lastSeen.value[session.id];
  return seq === undefined ? session.last_activity_at > firstVisitAt : session.seq > seq;
}

/** The number of turns that were added since the session was read. */
export function unreadTurns(session: Session): number {
  return Math.max(0, session.turn_count - (readDepth(session.id) ?? 0));
}

const DEPTHS_KEY = 'ctx.read';
const depths: Record<string, number> = JSON.parse(localStorage.getItem(DEPTHS_KEY) ?? '{}');

/** The depth of the last turn that was read; undefined if the session was never open. */
export const readDepth = (session: string): number | undefined => depths[session];

function storeReadDepth(session: Session): void {
  if (depths[session.id] === session.turn_count) return;
  delete depths[session.id];
  depths[session.id] = session.turn_count;
  const entries = Object.entries(depths).slice(-MARKERS_MAX);
  localStorage.setItem(DEPTHS_KEY, JSON.stringify(Object.fromEntries(entries)));
}

export function markRead(session: Session): void {
  storeReadDepth(session);
  if (lastSeen.value[session.id] === session.seq) return;
  const entries = Object.entries({ ...lastSeen.value, [session.id]: session.seq });
  lastSeen.value = Object.fromEntries(entries.slice(-MARKERS_MAX));
  localStorage.setItem(MARKERS_KEY, JSON.stringify(lastSeen.value));
}
