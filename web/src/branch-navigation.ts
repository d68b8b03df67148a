// Moving between the branches of a session: the sessions whose heads are in its tree of turns.
import { get, sessionPath } from './api';
import type { Session, TreeTurn } from './api-types';
import { panel } from './preferences';
import { hrefTo, navigate, route } from './route';
import { currentStore } from './session-view';
import { showToast } from './toast';

/** The labels of the sessions whose heads are in the tree of a session. */
async function branchLabels(session: Session): Promise<string[]> {
  const { turns } = await get<{ turns: TreeTurn[] }>(sessionPath(session.id, '/tree'));
  return [...new Set(turns.flatMap((turn) => turn.heads))].sort();
}

const NO_BRANCH = 'This session has no other branch. Fork it at any turn.';

/** Compares a session with its only other branch. If it has several, the branches panel shows them
 * to choose from. */
export async function compareWithBranch(session: Session): Promise<void> {
  const others = (await branchLabels(session)).filter((label) => label !== session.label);
  if (others.length === 0) return showToast({ text: NO_BRANCH });
  if (others.length === 1) return void navigate(hrefTo.compare(session.label, others[0]!));
  panel.value = 'branches';
  showToast({ text: 'Choose the branch to compare with in the Branches panel.' });
}

/** Opens the next (1) or previous (-1) branch, in the order of their heads in the tree. */
export async function openAdjacentBranch(offset: 1 | -1): Promise<void> {
  const session = currentStore.value?.session.value;
  if (!session || route.value.view !== 'session') return;
  const labels = await branchLabels(session);
  if (labels.length < 2) return showToast({ text: NO_BRANCH });
  const at = labels.indexOf(session.label);
  navigate(hrefTo.session(labels[(at + offset + labels.length) % labels.length]!));
}
