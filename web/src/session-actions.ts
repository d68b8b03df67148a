// Actions on a session that can be undone. Each leaves a toast.
import { patch, post, remove, sessionPath } from './api';
import type { InboxItem, Session, Turn } from './api-types';
import { hrefTo, navigate, route } from './route';
import { sessionName } from './session-display';
import { deletedIds, updateSession } from './session-list-store';
import { showError, showToast, TOAST_MS } from './toast';

async function setArchived(session: Session, archived: boolean): Promise<void> {
  const action = archived ? '/archive' : '/unarchive';
  updateSession(await post<Session>(sessionPath(session.id, action)));
}

export async function toggleArchived(session: Session): Promise<void> {
  const archived = session.status !== 'archived';
  await setArchived(session, archived);
  showToast({
    text: `${archived ? 'Archived' : 'Unarchived'} “${sessionName(session)}”.`,
    undo: () => setArchived(session, !archived),
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

/** Moves the head back to a turn. */
export async function rewind(session: Session, turn: Turn): Promise<void> {
  const path = sessionPath(session.id, '/rewind');
  await post(path, { turn_id: turn.id });
  showToast({
    text: `Moved back to turn ${turn.depth}. The later turns are kept.`,
    undo: () => post(path, { turn_id: session.head, forward: true }),
  });
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
  });
}

/** Confirms or abandons the open task. Both seal it. */
export async function sealTask(session: string, action: 'confirm' | 'abandon'): Promise<void> {
  await post(sessionPath(session, `/task/${action}`));
  showToast({
    text: `The task was sealed${action === 'abandon' ? ' as abandoned' : ''}.`,
    undo: () => post(sessionPath(session, '/task/reopen')),
  });
}
