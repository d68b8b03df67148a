// The transcript of a session: its rows in a virtual list, and the actions on its turns.
import { useComputed, useSignal } from '@preact/signals';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, post, sessionPath } from './api';
import type { Session, Turn } from './api-types';
import { storedAttachments } from './attachments';
import { openToWrite } from './composer';
import { Icon } from './icon';
import { markRead, readDepth } from './read-markers';
import { isWithCtxOnly, newestSealing, transcriptRows, type Row } from './row-model';
import { RowView, type TurnActions } from './row-view';
import { fork, rewind } from './session-actions';
import type { SessionStore } from './session-store';
import { VirtualList } from './virtual-list';

interface Props {
  store: SessionStore;
  /** The turn to scroll to. */
  target: Target | null;
  /** The words to scroll to in that turn. */
  find: string | null;
}

export function Transcript({ store, target, find }: Props) {
  const session = store.session.value;
  const busy = session?.state === 'running';
  const readBefore = useReadBefore(store);
  const rows = useComputed(() => {
    store.turnsVersion.value;
    const isRunning = store.session.value?.state === 'running';
    const { turns, turnCount, openMessages } = store;
    return transcriptRows(turns, turnCount, openMessages.value, isRunning, readBefore.value);
  }).value;
  const [isAtEnd, setAtEnd] = useState(true);
  const [scrollToEndRequest, setScrollToEndRequest] = useState(0);
  const messageJump = useMessageJump(store);
  const current = messageJump.target ?? target;

  useEffect(() => {
    if (session && !document.hidden) markRead(session);
  }, [session?.seq, session?.id]);

  const pinned = store.pinnedTurns.value;
  const sealing = session?.task ? null : newestSealing(rows);
  const actions: TurnActions = useMemo(
    () => ({
      session: store.id,
      fork: (turn) => fork(store.id, turn),
      rewind: async (turn) => store.session.value && rewind(store.session.value, turn),
      resend: async (depth, message, text) => {
        const files = await storedAttachments(message);
        const branch = await forkBefore(store, depth);
        const content = [{ type: 'text', text: text.trim() }, ...files];
        await post(sessionPath(branch.id, '/messages'), { content });
        openToWrite(branch.id);
      },
      retry: () => post(sessionPath(store.id, '/retry')),
      setPinned: (turn, wanted) => store.setPinned(turn, wanted),
      isPinned: (turn) => pinned.has(turn),
      isLastExchange: (depth) => depth === lastExchange(store),
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
        target={current}
        find={messageJump.target ? null : find}
        position={messageJump.position}
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

/** A new session whose head is the turn before `depth`. Before the first turn it is empty. */
async function forkBefore(store: SessionStore, depth: number): Promise<Session> {
  const turn = store.turns.get(depth);
  if (turn?.parent) {
    return post<Session>(sessionPath(store.id, '/fork'), { turn_id: turn.parent });
  }
  const session = store.session.value!;
  const { project, working_dir, persona, provider_id, model, track_tasks } = session;
  const fields = { project, working_dir, persona, provider_id, model, track_tasks };
  const given = Object.entries(fields).filter(([, value]) => value !== null);
  return post<Session>('/sessions', Object.fromEntries(given));
}

/** The last turn that was read when the session was opened; null if there is nothing new. */
function useReadBefore(store: SessionStore) {
  const depth = useSignal<number | null>(null);
  const isLoaded = store.isLoaded.value;
  // During the first drawing, before the session is marked as read.
  useMemo(() => {
    if (!isLoaded) return;
    const before = readDepth(store.session.value?.id ?? store.id) ?? 0;
    depth.value = before > 0 && before < store.turnCount ? before : null;
  }, [isLoaded]);
  return depth;
}

type Target = { depth: number; request: number };

/** Moves to the next (1) or previous (-1) message of the user; set while a transcript is shown. */
export let jumpToMessage: ((offset: 1 | -1) => void) | null = null;

function useMessageJump(store: SessionStore) {
  const [target, setTarget] = useState<Target | null>(null);
  const position = useRef<{ depth: number; isMoved: boolean } | null>(null);
  useEffect(() => {
    let depth = 0;
    jumpToMessage = (offset) => {
      const place = position.current;
      const last = store.turnCount + (store.openMessages.value.length > 0 ? 1 : 0);
      // After a scroll the search starts at the turn that is shown.
      if (place?.isMoved || depth === 0) depth = (place?.depth ?? last) + (offset < 0 ? 1 : 0);
      do depth += offset;
      while (depth > 1 && depth < last && hasNoQuestion(store.turns.get(depth)));
      depth = Math.max(1, Math.min(last, depth));
      if (place) place.isMoved = false;
      setTarget((before) => ({ depth, request: (before?.request ?? 0) + 1_000_000 }));
      store.announcement.value = `Message ${depth} of ${last}`;
    };
    return () => {
      jumpToMessage = null;
    };
  }, [store]);
  return { target, position };
}

/** True for a loaded turn without a message of the user, such as a compaction. */
const hasNoQuestion = (turn: Turn | undefined) =>
  turn !== undefined && !turn.messages.some((message) => message.role === 'user');

/** The depth of the newest turn that is not only with ctx. */
function lastExchange({ turns, turnCount }: SessionStore): number {
  let depth = turnCount;
  for (let turn; (turn = turns.get(depth)) && isWithCtxOnly(turn);) depth--;
  return depth;
}

/** The turn that the URL names. */
export interface NamedTurn extends Target {
  id: string;
  /** False for a rewound turn, and for a turn of another branch. */
  isOnPath: boolean;
}

/** Fetches the turn that the URL names, each time the URL changes. */
export function useNamedTurn(store: SessionStore, turn: string | null): NamedTurn | null {
  const [named, setNamed] = useState<NamedTurn | null>(null);
  const isLoaded = store.isLoaded.value;
  const resolve = async (isNew: boolean) => {
    const found = await get<Turn>(`/turns/${turn}`);
    const isOnPath = await store.isOnPath(found);
    setNamed((before) => {
      if (!isNew && before?.isOnPath === isOnPath) return before;
      const { id, depth } = found;
      return { id, depth, isOnPath, request: (before?.request ?? 0) + 1 };
    });
  };
  useEffect(() => {
    if (!turn) setNamed(null);
    else if (isLoaded) void resolve(true).catch(() => undefined);
  }, [turn, isLoaded]);
  // A rewound turn that was restored is on the path again.
  store.turnsVersion.value;
  const head = store.turns.get(store.turnCount)?.id;
  useEffect(() => {
    if (named && !named.isOnPath && turn) void resolve(false).catch(() => undefined);
  }, [head]);
  return turn ? named : null;
}
