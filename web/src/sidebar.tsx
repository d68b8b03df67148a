// The sessions: found, filtered, chosen.
import { link } from './follow';
import { Ago, Chip, Icon, IconButton, nameOf, plain, stateOf } from './bits';
import { nextTheme, theme } from './prefs';
import { go, hrefTo, route } from './route';
import * as sessions from './sessions';
import { help } from './help';
import type { Hit, Session } from './types';

export function Sidebar() {
  const { all } = { all: sessions.list.value };
  return (
    <nav class="sidebar" aria-label="Sessions">
      <header class="side-head">
        <a class="brand" href={hrefTo.none} aria-label="ctx, start">
          <img src="/assets/icon.svg" alt="" width="22" height="22" />
          <span>ctx</span>
        </a>
        <span class="spring" />
        <a class="icon-button" href={hrefTo.commits} aria-label="Sealed work" title="Sealed work">
          <Icon name="commit" />
        </a>
        <IconButton icon={theme.value === 'auto' ? 'auto' : theme.value === 'dark' ? 'moon' : 'sun'} label={`Theme: ${theme.value}`} onClick={nextTheme} />
        <IconButton icon="help" label="Keys and help" onClick={() => (help.value = true)} />
        <a class="button primary small" href={hrefTo.fresh} title="New session (n)">
          <Icon name="plus" /> New
        </a>
      </header>
      <div class="side-find">
        <label class="find">
          <Icon name="search" />
          <input
            id="find"
            type="search"
            placeholder="Search"
            aria-label="Find sessions and what was said"
            value={sessions.words.value}
            onInput={(event) => sessions.setWords(event.currentTarget.value)}
          />
        </label>
        <Filters />
      </div>
      <ul class="sessions" aria-label="Sessions, newest activity first">
        {all.map((session) => (
          <SessionItem key={session.id} session={session} />
        ))}
      </ul>
      {sessions.listed.value && all.length === 0 && <Empty />}
      {sessions.more.value && (
        <button type="button" class="link more" onClick={() => void sessions.fetchMore()}>
          Show more
        </button>
      )}
      {sessions.hits.value && <Hits hits={sessions.hits.value} />}
      <Link />
    </nav>
  );
}

function Filters() {
  const set = (change: () => void) => {
    change();
    void sessions.fetchList();
  };
  const projects = sessions.projects.value;
  const count = sessions.hidden.value.archived;
  return (
    <div class="filters" role="group" aria-label="Filter">
      <button type="button" class="toggle" aria-pressed={sessions.waitingOnly.value} onClick={() => set(() => (sessions.waitingOnly.value = !sessions.waitingOnly.value))}>
        Needs you
      </button>
      <button type="button" class="toggle" aria-pressed={sessions.archived.value} onClick={() => set(() => (sessions.archived.value = !sessions.archived.value))}>
        Show archived{count > 0 ? ` (${count})` : ''}
      </button>
      {(projects.length > 1 || sessions.project.value) && (
        <select class="quiet" aria-label="Project" value={sessions.project.value} onChange={(event) => set(() => (sessions.project.value = event.currentTarget.value))}>
          <option value="">All projects</option>
          {projects.map((project) => (
            <option key={project}>{project}</option>
          ))}
        </select>
      )}
    </div>
  );
}

function SessionItem({ session }: { session: Session }) {
  const here = route.value;
  const current = (here.view === 'session' || here.view === 'compare') && (here.id === session.id || here.id === session.label);
  const unread = !current && sessions.isUnread(session);
  const state = stateOf(session);
  return (
    <li>
      <a class={`session ${current ? 'current' : ''}`} href={hrefTo.session(session.id)} aria-current={current ? 'page' : undefined} data-session={session.id}>
        <span class={`dot ${state?.tone ?? ''} ${unread ? 'unread' : ''}`} />
        <span class="session-name">
          {session.origin === 'fork' && <Icon name="fork" />}
          {nameOf(session)}
          {unread && <span class="hear"> (unread)</span>}
        </span>
        <span class="session-when">
          <Ago at={session.last_activity_at} />
        </span>
        <span class="session-about">
          {state && <Chip tone={state.tone}>{state.text}</Chip>}
          {session.task && <Chip>{plain(session.task.state.name)}</Chip>}
          {session.waiting > 0 && <Chip>{session.waiting} waiting</Chip>}
          <span class="project">{session.project}</span>
        </span>
      </a>
    </li>
  );
}

function Empty() {
  if (sessions.words.value.trim()) return <p class="empty">No session has these words in its name.</p>;
  if (sessions.waitingOnly.value) return <p class="empty">Nothing waits for you.</p>;
  if (sessions.project.value) return <p class="empty">No session in this project.</p>;
  return (
    <p class="empty">
      No sessions yet. Press <kbd>n</kbd> to begin one.
    </p>
  );
}

function Hits({ hits }: { hits: Hit[] }) {
  return (
    <section class="hits" aria-label="What was said">
      <h2>What was said</h2>
      {hits.length === 0 && <p class="empty">Nobody said these words. Words are found whole; <code>word*</code> finds beginnings.</p>}
      <ul>
        {hits.map((hit) => (
          <li key={hit.id}>
            <HitLink hit={hit} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** In which session, where its name is known here. */
function place(hit: Hit): string {
  const session = hit.session ? sessions.known.value.get(hit.session) : null;
  return session ? `${hit.kind} in ${nameOf(session)}` : hit.kind;
}

function HitLink({ hit }: { hit: Hit }) {
  const inside = (
    <>
      <span class="snippet">{hit.snippet}</span>
      <span class="hint">
        {place(hit)} · <Ago at={hit.at} />
      </span>
    </>
  );
  if (hit.kind === 'commit') return <a href={hrefTo.commits}>{inside}</a>;
  if (!hit.session) return <span class="no-link">{inside}</span>;
  return <a href={hit.kind === 'turn' ? hrefTo.turn(hit.session, hit.id) : hrefTo.session(hit.session)}>{inside}</a>;
}

const LINKS = { connecting: 'Connecting…', live: 'Connected', lost: 'The server does not answer. Trying again…' };

/** Says whether the server is there; heard when it changes. */
function Link() {
  return (
    <p class={`link-state ${link.value}`} role="status">
      <span class="dot" />
      {LINKS[link.value]}
    </p>
  );
}

/** Goes to the next or the previous session of the list. */
export function step(by: 1 | -1): void {
  const all = sessions.list.value;
  const here = route.value;
  const id = here.view === 'session' ? here.id : null;
  const at = all.findIndex((session) => session.id === id || session.label === id);
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))];
  if (!next) return;
  go(hrefTo.session(next.id));
  requestAnimationFrame(() => document.querySelector(`[data-session="${next.id}"]`)?.scrollIntoView({ block: 'nearest' }));
}
