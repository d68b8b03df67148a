// Actions on a session that can be undone. Each leaves a toast.
import { get, patch, post, remove, sessionPath } from './api';
import type { InboxItem, Session, Turn } from './api-types';
import { openToWrite } from './composer';
import { hrefTo, navigate, route } from './route';
import { plural } from './session-display';
import { sessionName } from './session-names';
import { deletedIds, sessionsById, updateSession } from './session-list-store';
import { showError, showToast, TOAST_MS } from './toast';

async function setArchived(session: Session, archived: boolean): Promise<void> {
  const action = archived ? '/archive' : '/unarchive';
  updateSession(await post<Session>(sessionPath(session.id, action)));
}

export async function toggleArchived(session: Session): Promise<void> {
  // The open session may have been fetched before the last change.
  const { status } = sessionsById.value.get(session.id) ?? session;
  const archived = status !== 'archived';
  await setArchived(session, archived);
  showToast({
    text: `${archived ? 'Archived' : 'Unarchived'} “${sessionName(session)}”.`,
    undo: () => setArchived(session, !archived),
    undone: `“${sessionName(session)}” is ${archived ? 'not archived any more' : 'archived again'}.`,
  });
}

/** Hides the session and deletes it when the time to undo has passed. If the page is closed before,
 * nothing is deleted. */
export function deleteSession(session: Session): void {
  const setHidden = (hidden: boolean) => {
    const ids = new Set(deletedIds.value);
    if (hidden) ids.add(session.id);
    else ids.delete(session.id);
    deletedIds.value = ids;
  };
  setHidden(true);
  const shown = route.value;
  if (shown.view === 'session' && [session.id, session.label].includes(shown.id)) {
    navigate(hrefTo.list);
  }
  showToast({
    text:
      `“${sessionName(session)}” will be deleted for good in ${TOAST_MS / 1000} seconds. ` +
      'If you close this page before, it is kept.',
    undo: async () => setHidden(false),
    onExpire: () =>
      void remove(sessionPath(session.id)).catch((reason) => {
        setHidden(false);
        showError(reason);
      }),
  });
}

/** Moves the head of a session from one turn to another, over the newest turn that both share. */
async function moveHead(session: string, from: string, shared: string, to: string): Promise<void> {
  const path = sessionPath(session, '/rewind');
  if (from !== shared) await post(path, { turn_id: shared });
  if (to === shared) return;
  try {
    await post(path, { turn_id: to, forward: true });
  } catch (reason) {
    if (from !== shared) await post(path, { turn_id: from, forward: true }).catch(() => undefined);
    throw reason;
  }
}

/** Throws if the head is not the given turn: undoing then would hide turns that were added since. */
async function requireHead(session: string, head: string): Promise<void> {
  if ((await get<Session>(sessionPath(session))).head === head) return;
  throw new Error(
    'Not undone: the conversation continued since. The earlier turns are in the Branches panel, where you can restore them.',
  );
}

/** Moves the head back to a turn. */
export async function rewind(session: Session, turn: Turn): Promise<void> {
  const { id, head } = session;
  if (!head || head === turn.id) return;
  await moveHead(id, head, turn.id, turn.id);
  showToast({
    text: `Moved back to turn ${turn.depth}. The later turns are kept in the Branches panel.`,
    undo: async () => {
      await requireHead(id, turn.id);
      await moveHead(id, turn.id, turn.id, head);
    },
    undone: `The later turns of “${sessionName(session)}” are restored.`,
  });
}

/** Moves the head back to the turn before it. */
export async function rewindOneTurn(session: Session): Promise<void> {
  const head = session.head && (await get<Turn>(`/turns/${session.head}`));
  if (!head || !head.parent) throw new Error('There is no earlier turn to go back to.');
  await rewind(session, await get<Turn>(`/turns/${head.parent}`));
}

/** Makes a rewound turn the head again. `shared` is the newest turn that it shares with the
 * conversation, `count` the number of turns that return. */
export async function restore(
  session: Session,
  turn: string,
  shared: string,
  count: number,
): Promise<void> {
  const { id, head } = session;
  if (!head) return;
  await moveHead(id, head, shared, turn);
  showToast({
    text:
      `Restored ${plural(count, 'turn')}.` +
      (head === shared ? '' : ' The turns that stood there are rewound now.'),
    undo: async () => {
      await requireHead(id, turn);
      await moveHead(id, turn, shared, head);
    },
    undone: `The restored turns of “${sessionName(session)}” are rewound again.`,
  });
}

/** Opens a new branch that starts at a turn of the session; without a turn at its head. */
export async function fork(session: string, turn?: string): Promise<void> {
  const body = turn ? { turn_id: turn } : {};
  const created = await post<Session>(sessionPath(session, '/fork'), body);
  updateSession(created);
  openToWrite(created.id);
}

/** Takes a message out of the inbox. Undo sends it again and moves it to its place. */
export async function withdraw(session: string, item: InboxItem, position: number): Promise<void> {
  await remove(sessionPath(session, `/inbox/${item.id}`));
  showToast({
    text: `Withdrew “${item.text.slice(0, 60)}”.`,
    undo: async () => {
      const queue_mode = item.mode === 'interrupt' ? 'queue' : item.mode;
      const body = { text: item.text, queue_mode };
      const sent = await post<{ message_id: string; position: number | null }>(
        sessionPath(session, '/messages'),
        body,
      );
      if (sent.position === null || sent.position === position) return;
      await patch(sessionPath(session, `/inbox/${sent.message_id}`), { position });
    },
    undone: `Sent “${item.text.slice(0, 60)}” again.`,
  });
}

/** Confirms or abandons the open task. Both seal it. */
export async function sealTask(session: string, action: 'confirm' | 'abandon'): Promise<void> {
  await post(sessionPath(session, `/task/${action}`));
  showToast({
    text: `The task was sealed${action === 'abandon' ? ' as abandoned' : ''}.`,
    undo: () => post(sessionPath(session, '/task/reopen')),
    undone: 'The task is open again.',
  });
}
