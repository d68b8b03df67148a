// The transcript of a session: its rows in a virtual list, and the actions on its turns.
import { useComputed } from '@preact/signals';
import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { get, post, sessionPath } from './api';
import type { Session, Turn } from './api-types';
import { Icon } from './icon';
import { markRead } from './read-markers';
import { hrefTo, navigate } from './route';
import { isWithCtxOnly, newestSealing, transcriptRows, type Row } from './row-model';
import { RowView, type TurnActions } from './row-view';
import type { SessionStore } from './session-store';
import { VirtualList } from './virtual-list';

export function Transcript({ store, turn }: { store: SessionStore; turn: string | null }) {
  const session = store.session.value;
  const busy = session?.state === 'running';
  const rows = useComputed(() => {
    store.turnsVersion.value;
    const isRunning = store.session.value?.state === 'running';
    return transcriptRows(store.turns, store.turnCount, store.openMessages.value, isRunning);
  }).value;
  const [isAtEnd, setAtEnd] = useState(true);
  const [scrollToEndRequest, setScrollToEndRequest] = useState(0);
  const target = useTarget(store, turn);

  useEffect(() => {
    if (session && !document.hidden) markRead(session);
  }, [session?.seq, session?.id]);

  const pinned = store.pinnedTurns.value;
  const sealing = session?.task ? null : newestSealing(rows);
  const actions: TurnActions = useMemo(
    () => ({
      session: store.id,
      fork: async (turn) => {
        const fork = await post<Session>(sessionPath(store.id, '/fork'), { turn_id: turn });
        navigate(hrefTo.session(fork.id));
      },
      rewind: (turn) => post(sessionPath(store.id, '/rewind'), { turn_id: turn }),
      retry: () => post(sessionPath(store.id, '/retry')),
      setPinned: (turn, wanted) => store.setPinned(turn, wanted),
      isPinned: (turn) => pinned.has(turn),
      isLastExchange: (turn: Turn) => turn.depth === lastExchange(store),
      sealing,
      isIdle: session?.state === 'idle',
      isSuspended: session?.state === 'suspended',
    }),
    [store, session?.state, rows.length, pinned, sealing],
  );
  const draw = useCallback((row: Row) => <RowView row={row} actions={actions} />, [actions]);
  const loadAround = useCallback((depth: number) => void store.loadAround(depth), [store]);

  if (store.isLoaded.value && rows.length === 0) {
    return (
      <div class="scroller blank">
        <p class="no-messages">No messages yet</p>
      </div>
    );
  }
  return (
    <div class="transcript" aria-busy={busy}>
      <VirtualList
        rows={rows}
        draw={draw}
        onGapNear={loadAround}
        onScrolled={setAtEnd}
        label="Transcript"
        target={target}
        scrollToEndRequest={scrollToEndRequest}
      />
      {!isAtEnd && (
        <button
          type="button"
          class="scroll-to-end"
          onClick={() => setScrollToEndRequest(scrollToEndRequest + 1)}
        >
          <Icon name="down" /> {busy ? 'Jump to the answer' : 'Jump to the end'}
        </button>
      )}
    </div>
  );
}

/** The depth of the newest turn that is not only with ctx. */
function lastExchange({ turns, turnCount }: SessionStore): number {
  let depth = turnCount;
  for (let turn; (turn = turns.get(depth)) && isWithCtxOnly(turn);) depth--;
  return depth;
}

/** The depth of the turn that the URL names, fetched each time the URL changes. */
function useTarget(
  store: SessionStore,
  turn: string | null,
): { depth: number; request: number } | null {
  const [target, setTarget] = useState<{ depth: number; request: number } | null>(null);
  const isLoaded = store.isLoaded.value;
  useEffect(() => {
    if (!turn || !isLoaded) return;
    void get<Turn>(`/turns/${turn}`)
      .then(({ depth }) => setTarget((before) => ({ depth, request: (before?.request ?? 0) + 1 })))
      .catch(() => undefined);
  }, [turn, isLoaded]);
  return target;
}
