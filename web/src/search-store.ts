// Search over messages and tasks: the query, the pages of hits, suggestions, errors.
import { signal } from '@preact/signals';
import { ApiError, get } from './api';
import type { SearchHit, SearchPage } from './api-types';

const PAGE_SIZE = 20;

/** Null without a search text. */
export const searchPage = signal<SearchPage | null>(null);
/** Why the query is malformed; null if it is not. */
export const searchError = signal<string | null>(null);

let latestSearch = 0;
let query = '';

/** The query for a text that is still being typed: its last word is a prefix. */
export function typedQuery(text: string): string {
  const quotes = text.split('"').length - 1;
  const isWord = /(^|\s)-?[\p{L}\p{N}_]{2,}$/u.test(text);
  return isWord && quotes % 2 === 0 ? `${text}*` : text;
}

/** Fetches the first page. A response that arrives late is ignored. */
export async function search(text: string): Promise<void> {
  const thisSearch = ++latestSearch;
  query = typedQuery(text.trimStart());
  if (!query.trim()) {
    searchPage.value = searchError.value = null;
    return;
  }
  try {
    const page = await get<SearchPage>(searchPath());
    if (thisSearch !== latestSearch) return;
    searchPage.value = page;
    searchError.value = null;
  } catch (error) {
    if (thisSearch !== latestSearch || !(error instanceof ApiError)) return;
    // The hits of the query before stay while this one is being completed.
    searchError.value = error.message;
  }
}

export async function fetchMoreHits(): Promise<void> {
  const [thisSearch, before] = [latestSearch, searchPage.value];
  if (!before?.next_cursor) return;
  const page = await get<SearchPage>(`${searchPath()}&cursor=${before.next_cursor}`);
  if (thisSearch !== latestSearch) return;
  searchPage.value = { ...page, hits: [...before.hits, ...page.hits] };
}

const searchPath = () => `/search?q=${encodeURIComponent(query)}&limit=${PAGE_SIZE}`;

/** The hits of each session, in the order of the best hit of each. */
export function hitsBySession(hits: SearchHit[]): [string, SearchHit[]][] {
  const groups = new Map<string, SearchHit[]>();
  for (const hit of hits) {
    const key = hit.session ?? '';
    groups.set(key, [...(groups.get(key) ?? []), hit]);
  }
  return [...groups];
}
