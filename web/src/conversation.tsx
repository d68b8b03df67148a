// A conversation: its head line, what was said, what it waits for, and where one writes.
import { signal, useComputed } from '@preact/signals';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { at, get, patch, post, remove, told } from './api';
import { Chip, Failed, Icon, IconButton, nameOf, ownLabel, plain, stateOf } from './bits';
import { Compact } from './compact';
import { Composer, type Sending } from './composer';
import { link } from './follow';
import { List } from './list';
import { panel } from './prefs';
import { go, hrefTo } from './route';
import { RowView, type Acts } from './row';
import { allRows, type Row } from './rows';
import { markSeen, noteSession } from './sessions';
import { TaskPanel } from './task';
import { Talk } from './talk';
import { TreePanel } from './tree';
import { Waiting } from './waiting';
import type { Session, Turn } from './types';

/** Counted up to put the cursor where one writes. */
export const writeHere = signal(0);

/** The conversation that is open, for the keys. */
export const openTalk = signal<Talk | null>(null);

export function Conversation({ id, turn }: { id: string; turn: string | null }) {
  const talk = useMemo(() => new Talk(id), [id]);
  useEffect(() => {
    void talk.start();
    openTalk.value = talk;
    return () => {
      talk.close();
      openTalk.value = null;
    };
  }, [talk]);
  const problem = talk.problem.value;
  const session = talk.info.value;
  if (problem && (!session || problem.status === 404)) return <Missing problem={problem.message} waits={problem.code === 'unreachable'} />;
  return (
    <main class={`conversation ${panel.value ? 'with-panel' : ''}`} aria-label="Conversation">
      <div class="talk">
        <Header talk={talk} session={session} />
        <Transcript talk={talk} turn={turn} />
        <div class="dock">
          <div class="column">
            <Waiting talk={talk} />
            {link.value === 'lost' && <p class="offline">Not connected. It is tried again by itself, and your draft is kept.</p>}
            <Write key={id} talk={talk} />
          </div>
        </div>
        <p class="hear" role="status">
          {talk.spoken.value}
        </p>
      </div>
      {panel.value && session && (
        <aside class="panel" aria-label={panel.value === 'task' ? 'Task' : 'Branches'}>
          <IconButton icon="close" label="Close the panel" onClick={() => (panel.value = null)} />
          {panel.value === 'task' ? <TaskPanel talk={talk} session={session} /> : <TreePanel session={session} />}
        </aside>
      )}
    </main>
  );
}

function Missing({ problem, waits }: { problem: string; waits: boolean }) {
  return (
    <main class="nothing">
      <h1>{waits ? 'One moment' : 'It is not here'}</h1>
      <p>{problem}</p>
      {!waits && <a href={hrefTo.none}>Back to the sessions</a>}
    </main>
  );
}

function Header({ talk, session }: { talk: Talk; session: Session | null }) {
  const [failed, setFailed] = useState<string | null>(null);
  if (!session) return <header class="bar" />;
  const state = stateOf(session);
  const show = (which: 'task' | 'tree') => (panel.value = panel.value === which ? null : which);
  const archive = () => toggleArchived(talk).catch((error) => setFailed(told(error)));
  return (
    <header class="bar">
      <a class="icon-button only-narrow" href={hrefTo.none} aria-label="All sessions">
        <Icon name="back" />
      </a>
      <div class="bar-name">
        <Title key={session.id} session={session} />
        <p class="hint bar-about">
          {ownLabel(session) && <span>{ownLabel(session)}</span>}
          <span>{session.project}</span>
          {session.working_dir && <span title={session.working_dir}>{session.working_dir.split('/').at(-1)}</span>}
          {session.persona && <span>{session.persona}</span>}
        </p>
      </div>
      {state && <Chip tone={state.tone}>{state.text}</Chip>}
      {session.delivery !== 'open' && <Chip tone="ask">{session.delivery === 'hold' ? 'holds messages' : 'refuses messages'}</Chip>}
      <Failed text={failed} />
      <button type="button" class="tool-button" aria-pressed={panel.value === 'task'} onClick={() => show('task')} title="The task (t)">
        <Icon name="task" />
        <span class="wide-only">{session.task ? plain(session.task.state.name) : 'Task'}</span>
      </button>
      <button type="button" class="tool-button" aria-pressed={panel.value === 'tree'} onClick={() => show('tree')} title="The branches (b)">
        <Icon name="tree" />
        <span class="wide-only">Branches</span>
      </button>
      <Compact key={session.id} talk={talk} session={session} />
      <IconButton icon="archive" label={session.status === 'archived' ? 'Take out of the archive (e)' : 'Archive (e)'} onClick={() => void archive()} />
      <span class="not-narrow">
        <Delete session={session} />
      </span>
    </header>
  );
}

export async function toggleArchived(talk: Talk): Promise<void> {
  const session = talk.info.value;
  if (!session) return;
  noteSession(await post<Session>(at(session.id, session.status === 'archived' ? '/unarchive' : '/archive')));
  await talk.refresh('session');
}

/** The title, which is changed where it stands. */
function Title({ session }: { session: Session }) {
  const [text, setText] = useState<string | null>(null);
  const left = useRef(false);
  const save = async () => {
    const title = left.current ? null : text?.trim();
    left.current = false;
    setText(null);
    if (title && title !== session.title) await patch(at(session.id), { title }).catch(() => undefined);
  };
  return (
    <h1>
      {text === null ? (
        <button type="button" class="title" title="Change the title" onClick={() => setText(nameOf(session))}>
          {nameOf(session)}
        </button>
      ) : (
        <input
          aria-label="Title"
          value={text}
          ref={(field) => field?.focus()}
          onInput={(event) => setText(event.currentTarget.value)}
          onBlur={() => void save()}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
            else if (event.key === 'Escape') {
              left.current = true;
              event.currentTarget.blur();
            }
          }}
        />
      )}
    </h1>
  );
}

function Delete({ session }: { session: Session }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const forever = async () => {
    try {
      await remove(at(session.id));
      go(hrefTo.none);
    } catch (error) {
      setFailed(told(error));
    }
  };
  return (
    <>
      <IconButton icon="bin" label="Delete for good…" onClick={() => dialog.current?.showModal()} />
      <dialog ref={dialog} aria-labelledby="delete-title">
        <h2 id="delete-title">Delete “{nameOf(session)}” for good?</h2>
        <p>Its {session.turn_count} turns go with it, except those that other branches share. Archiving keeps everything.</p>
        <Failed text={failed} />
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep it
          </button>
          <button type="button" class="danger" onClick={() => void forever()}>
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}

function Transcript({ talk, turn }: { talk: Talk; turn: string | null }) {
  const busy = talk.info.value?.state === 'running';
  const rows = useComputed(() => {
    talk.changed.value;
    return allRows(talk.turns, talk.count, talk.open.value, talk.info.value?.state === 'running');
  }).value;
  const [atEnd, setAtEnd] = useState(true);
  const [toEnd, setToEnd] = useState(0);
  const target = useTarget(talk, turn);

  // What is looked at has been read.
  const session = talk.info.value;
  useEffect(() => {
    if (session && !document.hidden) markSeen(session);
  }, [session?.seq, session?.id]);

  const pins = talk.pins.value;
  const acts: Acts = useMemo(
    () => ({
      session: talk.id,
      fork: async (turn) => go(hrefTo.session((await post<Session>(at(talk.id, '/fork'), { turn_id: turn })).id)),
      rewind: (turn) => post(at(talk.id, '/rewind'), { turn_id: turn }),
      retry: () => post(at(talk.id, '/retry')),
      pin: (turn, wanted) => talk.pin(turn, wanted),
      isPinned: (turn) => pins.has(turn),
      isHead: (turn: Turn) => turn.depth === talk.count,
      idle: session?.state === 'idle',
      suspended: session?.state === 'suspended',
    }),
    [talk, session?.state, rows.length, pins],
  );
  const draw = useCallback((row: Row) => <RowView row={row} acts={acts} />, [acts]);
  const want = useCallback((depth: number) => void talk.want(depth), [talk]);

  if (talk.loaded.value && rows.length === 0) {
    return (
      <div class="scroller blank">
        <p class="nothing-said">Nothing was said yet.</p>
      </div>
    );
  }
  return (
    <div class="transcript" aria-busy={busy}>
      <List rows={rows} draw={draw} want={want} ended={setAtEnd} label="What was said" target={target} toEnd={toEnd} />
      {!atEnd && (
        <button type="button" class="to-end" onClick={() => setToEnd(toEnd + 1)}>
          <Icon name="down" /> {busy ? 'To the answer' : 'To the end'}
        </button>
      )}
    </div>
  );
}

/** Where a link to a turn leads. */
function useTarget(talk: Talk, turn: string | null): { depth: number; n: number } | null {
  const [target, setTarget] = useState<{ depth: number; n: number } | null>(null);
  const loaded = talk.loaded.value;
  useEffect(() => {
    if (!turn || !loaded) return;
    void get<Turn>(`/turns/${turn}`)
      .then(({ depth }) => setTarget((before) => ({ depth, n: (before?.n ?? 0) + 1 })))
      .catch(() => undefined);
  }, [turn, loaded]);
  return target;
}

function Write({ talk }: { talk: Talk }) {
  const session = talk.info.value;
  const send = async (message: Sending, key: string) => {
    await post(at(talk.id, '/messages'), message, { 'idempotency-key': key });
    void talk.refresh('session', 'inbox', 'open');
  };
  const placeholder =
    session?.status === 'archived'
      ? 'A message takes it out of the archive'
      : session?.state === 'running'
        ? 'Say more while it works'
        : session?.state === 'suspended'
          ? 'Answer above, or write'
          : 'Message';
  return <Composer name={talk.id} session={session} send={send} placeholder={placeholder} focus={writeHere.value} />;
}
