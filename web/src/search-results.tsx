// The search results of the sidebar: grouped by session, with the matches marked.
import type { SearchHit } from './api-types';
import { hrefTo } from './route';
import { COMMIT_TYPES, humanize } from './session-display';
import { fetchMoreHits, hitsBySession, searchError, searchPage } from './search-store';
import { sessionsById } from './session-list-store';
import { sessionName } from './session-names';
import { RelativeTime } from './time';

interface Props {
  /** Searches for a suggested query. */
  onSuggestion: (query: string) => void;
}

export function SearchResults({ onSuggestion }: Props) {
  const page = searchPage.value;
  if (!page && !searchError.value) return null;
  return (
    <section class="search-hits" aria-label="Search results" onKeyDown={moveFocus}>
      <h2>Search results</h2>
      {searchError.value && (
        <p class="empty" role="status">
          {searchError.value}
        </p>
      )}
      {page && page.hits.length === 0 && !searchError.value && <p class="empty">No results.</p>}
      {page?.suggestions.map((query) => (
        <button type="button" class="link suggestion" onClick={() => onSuggestion(query)}>
          Search for {query}
        </button>
      ))}
      {page && hitsBySession(page.hits).map(([id, hits]) => <SessionHits key={id} hits={hits} />)}
      {page?.next_cursor && (
        <button type="button" class="link more" onClick={() => void fetchMoreHits()}>
          More results
        </button>
      )}
    </section>
  );
}

function SessionHits({ hits }: { hits: SearchHit[] }) {
  const [first] = hits;
  return (
    <>
      <h3 dir="auto">{nameOf(first)}</h3>
      <ul>
        {hits.map((hit) => (
          <li key={hit.id}>
            <Hit hit={hit} />
          </li>
        ))}
      </ul>
    </>
  );
}

function nameOf(hit: SearchHit | undefined): string {
  const session = sessionsById.value.get(hit?.session ?? '');
  return session
    ? sessionName(session)
    : (hit?.session_title ?? hit?.session_label ?? 'Deleted session');
}

/** Who wrote what was found. */
const AUTHORS: Record<string, string> = {
  user: 'You',
  assistant: 'Agent',
  tool: 'Tool',
  system: 'ctx',
};

function Hit({ hit }: { hit: SearchHit }) {
  const kind = hit.kind === 'task' || !hit.role ? 'Task' : (AUTHORS[hit.role] ?? hit.role);
  const content = (
    <>
      <span class="snippet">
        {hit.segments.map((segment) =>
          segment.match ? <mark>{segment.text}</mark> : segment.text,
        )}
      </span>
      <span class="hint">
        {kind}
        {hit.outcome && ` · ${COMMIT_TYPES[hit.outcome]?.[0] ?? humanize(hit.outcome)}`} ·{' '}
        <RelativeTime at={hit.at} />
      </span>
    </>
  );
  const href = hrefOf(hit);
  return href ? <a href={href}>{content}</a> : <span class="no-link">{content}</span>;
}

/** The page that shows a hit: its turn, its commit, or its session. */
export function hrefOf(hit: SearchHit): string | null {
  if (hit.session && hit.turn) {
    const match = hit.segments.find((segment) => segment.match)?.text;
    return hrefTo.turn(hit.session, hit.turn, match);
  }
  if (hit.commit) return hrefTo.commit(hit.commit);
  return hit.session ? hrefTo.session(hit.session) : null;
}

const links = () => [...document.querySelectorAll<HTMLElement>('.search-hits a')];

/** Moves the focus to the first hit; false if there is none. */
export function focusFirstHit(): boolean {
  const [first] = links();
  first?.focus();
  return !!first;
}

/** The arrow keys move between the hits, and from the first one back to the search field. */
function moveFocus(event: KeyboardEvent): void {
  const offset = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key !== 'Escape' && !offset) return;
  event.preventDefault();
  const all = links();
  const index = all.indexOf(document.activeElement as HTMLElement) + (offset ?? 0);
  const next = event.key === 'Escape' || index < 0 ? document.getElementById('search') : all[index];
  next?.focus();
}
