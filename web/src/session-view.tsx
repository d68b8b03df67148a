// The view of one session: header, transcript, pending requests, inbox, composer, side panel.
import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { post, sessionPath, type ApiError } from './api';
import type { Session } from './api-types';
import { Composer, type OutgoingMessage } from './composer';
import { ContextMeter } from './context-meter';
import { connection } from './event-stream';
import { IconButton } from './icon';
import { Inbox } from './inbox';
import { OnDemand } from './on-demand';
import { panel } from './preferences';
import { hrefTo } from './route';
import { RunStatus } from './run-status';
import { SessionHeader } from './session-header';
import { SessionStore } from './session-store';
import { Suspensions } from './suspensions';
import { FinishedTask } from './task-actions';
import { Transcript, useNamedTurn } from './transcript';

/** The store of the session that is shown; used by the keyboard shortcuts. */
export const currentStore = signal<SessionStore | null>(null);

const PANEL_NAMES = { task: 'Task', branches: 'Branches', details: 'Details' };

interface Props {
  id: string;
  /** The turn to scroll to. */
  turn: string | null;
  /** The words to scroll to in that turn. */
  find: string | null;
}

export function SessionView({ id, turn, find }: Props) {
  const store = useMemo(() => new SessionStore(id), [id]);
  useEffect(() => {
    void store.start();
    currentStore.value = store;
    return () => {
      store.close();
      currentStore.value = null;
    };
  }, [store]);
  const named = useNamedTurn(store, turn);
  const error = store.error.value;
  const session = store.session.value;
  if (error && (!session || error.status === 404)) return <Unavailable error={error} />;
  return (
    <main class={`session-view ${panel.value ? 'with-panel' : ''}`} aria-label="Session">
      <div class="session-main">
        <SessionHeader store={store} session={session} />
        {session && named && !named.isOnPath ? (
          <OnDemand
            show={(more) => <more.RewoundTurns session={session} turn={named.id} find={find} />}
          />
        ) : (
          <>
            <Transcript store={store} target={named} find={find} />
            <Dock store={store} session={session} />
          </>
        )}
        <p class="visually-hidden" role="status">
          {store.announcement.value}
        </p>
      </div>
      {panel.value && session && (
        <aside class="panel" aria-label={PANEL_NAMES[panel.value]}>
          <IconButton icon="close" label="Close panel" onClick={() => (panel.value = null)} />
          <OnDemand show={(more) => <more.Panel name={panel.value} session={session} />} />
        </aside>
      )}
    </main>
  );
}

/** What is below the transcript. */
function Dock({ store, session }: { store: SessionStore; session: Session | null }) {
  return (
    <div class="dock">
      <div class="column">
        {session && <Suspensions store={store} session={session} />}
        {session && <FinishedTask session={session} />}
        {session && <Inbox store={store} />}
        {connection.value === 'lost' && (
          <p class="offline">Not connected. Reconnecting… Your draft is kept.</p>
        )}
        {session && <RunStatus store={store} session={session} />}
        <SessionComposer key={store.id} store={store} />
      </div>
    </div>
  );
}

function Unavailable({ error }: { error: ApiError }) {
  const isConnecting = error.code === 'unreachable';
  return (
    <main class="placeholder">
      <h1>{isConnecting ? 'Connecting…' : 'Session not available'}</h1>
      <p>{error.message}</p>
      {!isConnecting && <a href={hrefTo.list}>Back to all sessions</a>}
    </main>
  );
}

function SessionComposer({ store }: { store: SessionStore }) {
  const session = store.session.value;
  const send = async (message: OutgoingMessage, idempotencyKey: string) => {
    const headers = { 'idempotency-key': idempotencyKey };
    await post(sessionPath(store.id, '/messages'), message, headers);
    void store.refresh('session', 'inbox', 'open');
  };
  return (
    <Composer
      draftName={store.id}
      session={session}
      send={send}
      placeholder={placeholderFor(session)}
      workingDir={session?.working_dir ?? null}
      onStop={() => stopRun(store)}
    >
      {session && <ContextMeter store={store} session={session} />}
    </Composer>
  );
}

/** Stops the current run. What it wrote is kept. */
export const stopRun = (store: SessionStore) => post(sessionPath(store.id, '/cancel'));

function placeholderFor(session: Session | null): string {
  if (session?.status === 'archived') return 'Send a message to unarchive this session';
  if (session?.state === 'running') return 'Send another message';
  if (session?.state === 'suspended') return 'Answer above, or send a message';
  return session?.working_dir
    ? 'Message, / for commands, @ for files'
    : 'Message, or / for commands';
}
