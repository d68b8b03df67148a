// The page begins: the keys, the views, the feed of all sessions.
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { needsToken } from './api';
import { Commits } from './commits';
import { Compare } from './compare';
import { Conversation, openTalk, toggleArchived, writeHere } from './conversation';
import { Fresh } from './fresh';
import { Help, help } from './help';
import { Login } from './login';
import { panel } from './prefs';
import { go, hrefTo, route } from './route';
import { known, list, listed, start } from './sessions';
import { Sidebar, step } from './sidebar';
import { nameOf } from './bits';
import './style.css';

function App() {
  const here = route.value;
  useEffect(() => void start(), []);
  useEffect(() => {
    const session = here.view === 'session' ? known.value.get(here.id) : null;
    document.title = session ? `${nameOf(session)} · ctx` : 'ctx';
  });
  if (needsToken.value) return <Login done={() => void start()} />;
  return (
    <div class={`app ${here.view === 'none' ? 'at-list' : 'at-view'}`}>
      <a class="skip" href="#find" onClick={skip}>
        To the search
      </a>
      <Sidebar />
      <View />
      <Help />
    </div>
  );
}

function View() {
  const here = route.value;
  switch (here.view) {
    case 'new':
      return <Fresh />;
    case 'commits':
      return <Commits />;
    case 'compare':
      return <Compare id={here.id} other={here.other} />;
    case 'session':
      return <Conversation key={here.id} id={here.id} turn={here.turn} />;
    case 'none':
      return listed.value && list.value.length === 0 && known.value.size === 0 ? <Fresh /> : <Nothing />;
  }
}

const Nothing = () => (
  <main class="nothing wide-only-view">
    <h1>Choose a session</h1>
    <p class="hint">
      <kbd>j</kbd> and <kbd>k</kbd> go through the list, <kbd>n</kbd> begins a new one, <kbd>?</kbd> shows all keys.
    </p>
  </main>
);

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('find')?.focus();
}

const KEYS: Record<string, () => void> = {
  j: () => step(1),
  k: () => step(-1),
  '/': () => document.getElementById('find')?.focus(),
  n: () => go(hrefTo.fresh),
  e: () => openTalk.value && void toggleArchived(openTalk.value).catch(() => undefined),
  r: () => writeHere.value++,
  t: () => (panel.value = panel.value === 'task' ? null : 'task'),
  b: () => (panel.value = panel.value === 'tree' ? null : 'tree'),
  '?': () => (help.value = true),
};

addEventListener('keydown', (event) => {
  const target = event.target as HTMLElement;
  if (event.key === 'Escape' && target.matches('input, textarea, select')) return target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, textarea, select, dialog[open]')) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

render(<App />, document.getElementById('app')!);
