// Layout of the branches drawing: consecutive turns without a fork become one segment, and each
// branch gets its own lane.
import type { TreeTurn } from './api-types';

/** Consecutive turns without a fork between them. */
export interface Segment {
  /** The newest turn. */
  id: string;
  /** The oldest turn. */
  first: string;
  count: number;
  /** Labels of the sessions whose head is the newest turn. */
  heads: string[];
  /** Whether no session has these turns, because a rewind or a retry left them. */
  isRewound: boolean;
  lane: number;
  /** Lane and row of the segment that this one continues; null for a root. */
  from: { lane: number; row: number } | null;
}

/** The segments in drawing order: parents before children, a branch right after its fork point.
 * The path to the head of session `current` keeps the leftmost lane. */
export function layoutSegments(turns: TreeTurn[], current = ''): Segment[] {
  const children = new Map<string | null, TreeTurn[]>();
  const ids = new Set(turns.map((turn) => turn.id));
  for (const turn of turns) {
    const parent = turn.parent && ids.has(turn.parent) ? turn.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), turn]);
  }
  const path = pathTo(turns, current);
  const used = usedTurns(turns);
  for (const list of children.values()) {
    list.sort((a, b) => Number(path.has(b.id)) - Number(path.has(a.id)));
  }
  const segments: Segment[] = [];
  let lanes = 0;
  const pending: { turn: TreeTurn; lane: number; from: Segment['from'] }[] = [];
  const push = (turn: TreeTurn, lane: number | null, from: Segment['from']) =>
    pending.push({ turn, lane: lane ?? lanes++, from });
  for (const root of (children.get(null) ?? []).toReversed()) push(root, null, null);
  while (pending.length) {
    const { turn: first, lane, from } = pending.pop()!;
    let turn = first;
    let count = 1;
    // A turn that is the head of a session ends its segment, so that the head is drawn.
    while (turn.heads.length === 0 && children.get(turn.id)?.length === 1) {
      turn = children.get(turn.id)![0]!;
      count++;
    }
    const { id, heads } = turn;
    segments.push({ id, first: first.id, count, heads, isRewound: !used.has(id), lane, from });
    const parent = { lane, row: segments.length - 1 };
    // The first child continues the lane. It is pushed first and therefore drawn last, so that
    // the other branches are drawn next to their fork point.
    const [next, ...branches] = children.get(turn.id) ?? [];
    if (next) push(next, lane, parent);
    for (const branch of branches) push(branch, null, parent);
  }
  return segments;
}

/** The ids of all turns from the head of a session to its root. */
function pathTo(turns: TreeTurn[], label: string): Set<string> {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const path = new Set<string>();
  let turn = turns.find((turn) => turn.heads.includes(label));
  for (; turn; turn = byId.get(turn.parent ?? '')) path.add(turn.id);
  return path;
}

/** The ids of the turns that are on the path to the head of any session. */
function usedTurns(turns: TreeTurn[]): Set<string> {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const used = new Set<string>();
  for (const head of turns.filter(({ heads }) => heads.length > 0)) {
    let turn: TreeTurn | undefined = head;
    for (; turn && !used.has(turn.id); turn = byId.get(turn.parent ?? '')) used.add(turn.id);
  }
  return used;
}

/** Turns beside the conversation of a session, between the newest turn that both share and a leaf. */
export interface SideBranch {
  /** The turns of the branch, oldest first. */
  turns: TreeTurn[];
  /** The newest shared turn; null if there is none. */
  shared: string | null;
  /** Labels of the sessions that have these turns; empty if they were rewound. */
  heads: string[];
}

/** The branch with a turn that is not on the path to the head of session `label`; null if it is on
 * that path or not in the tree. After the turn, the branch follows the newest turns. */
export function sideBranch(turns: TreeTurn[], label: string, turnId: string): SideBranch | null {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const path = pathTo(turns, label);
  let turn = byId.get(turnId);
  if (!turn || path.has(turnId)) return null;
  const branch: TreeTurn[] = [];
  for (; turn && !path.has(turn.id); turn = byId.get(turn.parent ?? '')) branch.unshift(turn);
  // The tree is ordered by time, so the last child is the newest.
  const newestChild = new Map(turns.map((one) => [one.parent, one]));
  let next = newestChild.get(turnId);
  for (; next; next = newestChild.get(next.id)) branch.push(next);
  const heads = branch.flatMap((one) => one.heads);
  return { turns: branch, shared: turn?.id ?? null, heads };
}
