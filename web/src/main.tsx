// Entry point: the layout of the page and the choice of the view. web/README.md maps the files.
// The libraries come first: code of one style in a row compresses better.
import 'marked';
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import '@preact/signals';
import 'dompurify';
import { needsToken } from './api';
import { startDeadDeliveryCheck } from './dead-deliveries';
import { HelpDialog } from './help-dialog';
import { installKeyboardShortcuts } from './keyboard-shortcuts';
import { Login } from './login';
import { Home } from './home';
import { lazyView } from './lazy-view';
import { isPaletteOpen, OnDemand } from './on-demand';
import { isNarrow } from './preferences';
import { route } from './route';
import { sessionName } from './session-names';
import { sessionsById, startSessionList } from './session-list-store';
import { SessionView } from './session-view';
import { focusSearch, Sidebar } from './sidebar';
import { Toasts } from './toast';
import './style.css';
import './views.css';

const CommitView = lazyView(() => import('./commit-view'));
const TaskView = lazyView(() => import('./task-view'));
const UsageView = lazyView(() => import('./usage-view'));
const SetupView = lazyView(() => import('./setup-view'));

function App() {
  const current = route.value;
  useEffect(start, []);
  useEffect(() => {
    const session = current.view === 'session' ? sessionsById.value.get(current.id) : null;
    document.title = session ? `${sessionName(session)} · ctx` : 'ctx';
  });
  const isAboveList = isNarrow.value && current.view === 'list';
  if (needsToken.value) return <Login onSuccess={start} />;
  return (
    <div class={`app ${current.view === 'list' ? 'shows-list' : 'shows-view'}`}>
      <a class="skip-link" href="#search" onClick={skipToSearch}>
        Skip to search
      </a>
      {isAboveList && <View />}
      <Sidebar />
      {!isAboveList && <View />}
      <HelpDialog />
      {isPaletteOpen.value && <OnDemand show={(more) => <more.CommandPalette />} />}
      <Toasts />
    </div>
  );
}

/** Also called after a login. */
function start(): void {
  void startSessionList();
  startDeadDeliveryCheck();
}

function View() {
  const current = route.value;
  switch (current.view) {
    case 'task':
      return <TaskView key={current.id} id={current.id} />;
    case 'usage':
      return <UsageView query={current.query} />;
    case 'setup':
      return <SetupView isSettings={current.isSettings} />;
    case 'commits':
      if (current.id) return <CommitView key={current.id} id={current.id} />;
      return <OnDemand show={(more) => <more.View route={current} />} />;
    case 'compare':
    case 'people':
    case 'deliveries':
      return <OnDemand show={(more) => <more.View route={current} />} />;
    case 'session':
      return (
        <SessionView key={current.id} id={current.id} turn={current.turn} find={current.find} />
      );
    case 'new':
    case 'list':
      return <Home />;
  }
}

function skipToSearch(event: Event): void {
  // The fragment of the URL is the route, so the link must not be followed.
  event.preventDefault();
  focusSearch();
}

installKeyboardShortcuts();
render(<App />, document.getElementById('app')!);
