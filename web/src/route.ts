// The current view, kept in the fragment of the URL (after `#`) so that views can be bookmarked.
import { signal } from '@preact/signals';

export type Route =
  | { view: 'list' }
  | { view: 'new' }
  | { view: 'session'; id: string; turn: string | null; find: string | null }
  | { view: 'compare'; id: string; other: string }
  | { view: 'commits'; id: string | null }
  | { view: 'task'; id: string }
  | { view: 'usage'; query: string }
  | { view: 'setup'; isSettings: boolean }
  | { view: 'people'; id: string | null }
  | { view: 'deliveries'; filter: string; session: string | null };

function parseHash(hash: string): Route {
  const parts = hash.replace(/^#\/?/, '').split('/').map(decode);
  const [first, id, third, fourth, fifth] = parts;
  if (first === 'new') return { view: 'new' };
  if (first === 'task' && id) return { view: 'task', id };
  if (first === 'usage') return { view: 'usage', query: id ?? '' };
  if (first === 'setup') return { view: 'setup', isSettings: id === 'settings' };
  if (first === 'commits') return { view: 'commits', id: id || null };
  if (first === 'people') return { view: 'people', id: id || null };
  if (first === 'deliveries')
    return { view: 'deliveries', filter: id || 'all', session: third || null };
  if (first !== 's' || !id) return { view: 'list' };
  if (third === 'compare' && fourth) return { view: 'compare', id, other: fourth };
  const turn = third === 'turn' && fourth ? fourth : null;
  return { view: 'session', id, turn, find: (turn && fifth) || null };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(parseHash(location.hash));
addEventListener('hashchange', () => (route.value = parseHash(location.hash)));

export const hrefTo = {
  list: '#/',
  newSession: '#/new',
  commits: '#/commits',
  commit: (id: string) => `#/commits/${id}`,
  task: (id: string) => `#/task/${id}`,
  /** `query` is the state of the page, as usage-data.ts formats it. */
  usage: (query = '') => `#/usage${query ? `/${encodeURIComponent(query)}` : ''}`,
  setup: '#/setup',
  settings: '#/setup/settings',
  people: '#/people',
  entity: (id: string) => `#/people/${id}`,
  deliveries: '#/deliveries',
  /** `session` limits the list to one session. */
  deliveriesWith: (filter: string, session: string | null) =>
    `#/deliveries/${filter}${session ? `/${encodeURIComponent(session)}` : ''}`,
  session: (id: string) => `#/s/${encodeURIComponent(id)}`,
  /** `find` are words in the turn to scroll to. */
  turn: (id: string, turn: string, find?: string) =>
    `#/s/${encodeURIComponent(id)}/turn/${turn}${find ? `/${encodeURIComponent(find)}` : ''}`,
  compare: (id: string, other: string) =>
    `#/s/${encodeURIComponent(id)}/compare/${encodeURIComponent(other)}`,
};

export const navigate = (href: string) => (location.hash = href);
