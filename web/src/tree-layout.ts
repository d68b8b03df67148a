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
    segments.push({ id: turn.id, first: first.id, count, heads: turn.heads, lane, from });
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
