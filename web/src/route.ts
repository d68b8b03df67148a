// Where the page is, in the part of the address after `#`: a link to a session is a link that can be kept.
import { signal } from '@preact/signals';

export type Route =
  | { view: 'none' }
  | { view: 'new' }
  | { view: 'session'; id: string; turn: string | null }
  | { view: 'compare'; id: string; other: string }
  | { view: 'commits' };

export function read(hash: string): Route {
  const parts = hash.replace(/^#\/?/, '').split('/').map(decode);
  const [first, id, third, fourth] = parts;
  if (first === 'new') return { view: 'new' };
  if (first === 'commits') return { view: 'commits' };
  if (first !== 's' || !id) return { view: 'none' };
  if (third === 'compare' && fourth) return { view: 'compare', id, other: fourth };
  return { view: 'session', id, turn: third === 'turn' && fourth ? fourth : null };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(read(location.hash));
addEventListener('hashchange', () => (route.value = read(location.hash)));

export const hrefTo = {
  none: '#/',
  fresh: '#/new',
  commits: '#/commits',
  session: (id: string) => `#/s/${encodeURIComponent(id)}`,
  turn: (id: string, turn: string) => `#/s/${encodeURIComponent(id)}/turn/${turn}`,
  compare: (id: string, other: string) => `#/s/${encodeURIComponent(id)}/compare/${encodeURIComponent(other)}`,
};

export const go = (href: string) => (location.hash = href);
