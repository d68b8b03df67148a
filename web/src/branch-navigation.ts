// Moving between the branches of a session: the sessions whose heads are in its tree of turns.
import { get, sessionPath } from './api';
import type { TreeTurn } from './api-types';
import { hrefTo, navigate, route } from './route';
import { currentStore } from './session-view';
import { showToast } from './toast';

/** Opens the next (1) or previous (-1) branch, in the order of their heads in the tree. */
export async function openAdjacentBranch(offset: 1 | -1): Promise<void> {
  const session = currentStore.value?.session.value;
  if (!session || route.value.view !== 'session') return;
  const { turns } = await get<{ turns: TreeTurn[] }>(sessionPath(session.id, '/tree'));
  const labels = [...new Set(turns.flatMap((turn) => turn.heads))].sort();
  if (labels.length < 2) {
    return showToast({ text: 'This session has no other branch. Fork it at any turn.' });
  }
  const at = labels.indexOf(session.label);
  navigate(hrefTo.session(labels[(at + offset + labels.length) % labels.length]!));
}
