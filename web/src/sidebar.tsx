// The sidebar: search, filters, the list of sessions, search results, connection state.
import type { ComponentChildren } from 'preact';
import { hasDeadDeliveries } from './dead-deliveries';
import { connection } from './event-stream';
import { isHelpOpen } from './help-dialog';
import { BrandMark, Icon, IconButton } from './icon';
import { nextTheme, theme } from './preferences';
import { hrefTo, navigate, route } from './route';
import { focusFirstHit, hrefOf, SearchResults } from './search-results';
import { searchPage } from './search-store';
import * as list from './session-list-store';
import { SessionRows } from './session-rows';

const SEARCH_FIELD_ID = 'search';
const THEME_ICONS = { auto: 'contrast', light: 'sun', dark: 'moon' } as const;

export const focusSearch = () => document.getElementById(SEARCH_FIELD_ID)?.focus();

export function Sidebar() {
  const rows = list.listRows.value;
  return (
    <nav class="sidebar" aria-label="Sessions">
      <header class="sidebar-header">
        <a class="brand" href={hrefTo.list} aria-label="ctx home">
          <BrandMark size={22} />
          <span>ctx</span>
        </a>
        <span class="spacer" />
        <IconButton
          icon={THEME_ICONS[theme.value]}
          label={`Theme: ${theme.value}`}
          onClick={nextTheme}
        />
        <IconButton
          icon="help"
          label="Help and keyboard shortcuts"
          onClick={() => (isHelpOpen.value = true)}
        />
        <a
          class="button primary small"
          href={hrefTo.newSession}
          title="New session (n)"
          onClick={() => list.setSearchText('')}
        >
          <Icon name="plus" /> New
        </a>
      </header>
      <ul class="views" aria-label="Views">
        <ViewLink view="commits" text="Commits" />
        <ViewLink view="usage" text="Usage" />
        <ViewLink view="people" text="People" />
        <ViewLink view="deliveries" text="Deliveries">
          {hasDeadDeliveries.value && (
            <span class="badge" title="Some deliveries failed">
              !<span class="visually-hidden"> some failed</span>
            </span>
          )}
        </ViewLink>
        <ViewLink view="setup" text="Setup" />
      </ul>
      <div class="sidebar-search">
        <label class="search-field">
          <Icon name="search" />
          <input
            id={SEARCH_FIELD_ID}
            type="search"
            placeholder="Search"
            aria-label="Search sessions and messages"
            value={list.searchText.value}
            onInput={(event) => list.setSearchText(event.currentTarget.value)}
            onKeyDown={onSearchKey}
          />
        </label>
        <Filters />
      </div>
      <SessionRows rows={rows} />
      {list.isLoaded.value && rows.length === 0 && <EmptyList />}
      {list.nextCursor.value && <p class="empty">Loading more…</p>}
      <SearchResults onSuggestion={list.setSearchText} />
      <ConnectionState />
    </nav>
  );
}

interface ViewLinkProps {
  view: 'commits' | 'usage' | 'people' | 'deliveries' | 'setup';
  text: string;
  children?: ComponentChildren;
}

const ViewLink = ({ view, text, children }: ViewLinkProps) => (
  <li>
    <a
      class="toggle"
      href={view === 'usage' ? hrefTo.usage() : hrefTo[view]}
      aria-current={route.value.view === view ? 'page' : undefined}
    >
      {text} {children}
    </a>
  </li>
);

function Filters() {
  const change = (set: () => void) => {
    set();
    void list.fetchSessions();
  };
  const projects = list.projectNames.value;
  const archivedCount = list.hiddenCounts.value.archived;
  return (
    <div class="filters" role="group" aria-label="Filter">
      <button
        type="button"
        class="toggle"
        aria-pressed={list.onlyWaiting.value}
        onClick={() => change(() => (list.onlyWaiting.value = !list.onlyWaiting.value))}
      >
        Needs a reply
      </button>
      <button
        type="button"
        class="toggle"
        aria-pressed={list.showArchived.value}
        onClick={() => change(() => (list.showArchived.value = !list.showArchived.value))}
      >
        Show archived{archivedCount > 0 ? ` (${archivedCount})` : ''}
      </button>
      {(projects.length > 1 || list.projectFilter.value) && (
        <select
          class="quiet"
          aria-label="Project"
          value={list.projectFilter.value}
          onChange={(event) => change(() => (list.projectFilter.value = event.currentTarget.value))}
        >
          <option value="">All projects</option>
          {projects.map((project) => (
            <option key={project}>{project}</option>
          ))}
        </select>
      )}
    </div>
  );
}

function EmptyList() {
  if (list.searchText.value.trim()) return <p class="empty">No sessions with this name.</p>;
  if (list.onlyWaiting.value) return <p class="empty">No session needs a reply.</p>;
  if (list.projectFilter.value) return <p class="empty">No sessions in this project.</p>;
  return <p class="empty">No sessions yet. Write a message to start one.</p>;
}

/** Enter opens the first hit, the arrow key moves to it, Escape ends the search. */
function onSearchKey(event: KeyboardEvent): void {
  if (event.key === 'ArrowDown' && focusFirstHit()) event.preventDefault();
  if (event.key === 'Escape') list.setSearchText('');
  const [first] = searchPage.value?.hits ?? [];
  const href = event.key === 'Enter' && first ? hrefOf(first) : null;
  if (href) navigate(href);
}

const CONNECTION_TEXTS = {
  connecting: 'Connecting…',
  connected: 'Connected',
  lost: 'Cannot reach the server. Reconnecting…',
};

function ConnectionState() {
  return (
    <p class={`connection ${connection.value}`} role="status">
      <span class="dot" />
      {CONNECTION_TEXTS[connection.value]}
    </p>
  );
}

/** Opens the next (1) or previous (-1) session of the list. */
export function openAdjacentSession(offset: 1 | -1): void {
  const rows = list.listRows.value;
  const sessions = rows.flatMap((row) => (row.kind === 'session' ? [row.session] : []));
  const id = route.value.view === 'session' ? route.value.id : null;
  const current = sessions.findIndex((session) => session.id === id || session.label === id);
  const index = current < 0 ? 0 : Math.max(0, Math.min(sessions.length - 1, current + offset));
  const next = sessions[index];
  if (!next) return;
  navigate(hrefTo.session(next.id));
  requestAnimationFrame(() =>
    document.querySelector(`[data-session="${next.id}"]`)?.scrollIntoView({ block: 'nearest' }),
  );
}
