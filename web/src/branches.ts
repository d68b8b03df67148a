// A tree of turns, drawn: runs of turns without a fork become one mark, each branch has a lane of its own.
import type { TreeTurn } from './types';

/** A stretch of turns without a fork inside. */
export interface Stretch {
  /** The newest turn of it. */
  id: string;
  first: string;
  count: number;
  heads: string[];
  lane: number;
  /** The lane and row that it comes from. */
  from: { lane: number; row: number } | null;
}

/** The rows of the drawing, oldest first; a branch follows where it forks off. The line to `here` keeps the first lane. */
export function stretches(turns: TreeTurn[], here = ''): Stretch[] {
  const children = new Map<string | null, TreeTurn[]>();
  const known = new Set(turns.map((turn) => turn.id));
  for (const turn of turns) {
    const parent = turn.parent && known.has(turn.parent) ? turn.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), turn]);
  }
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const line = new Set<string>();
  for (let turn = turns.find((turn) => turn.heads.includes(here)); turn; turn = byId.get(turn.parent ?? '')) line.add(turn.id);
  for (const list of children.values()) list.sort((a, b) => Number(line.has(b.id)) - Number(line.has(a.id)));
  const rows: Stretch[] = [];
  let lanes = 0;
  const todo: { turn: TreeTurn; lane: number; from: Stretch['from'] }[] = [];
  const push = (turn: TreeTurn, lane: number | null, from: Stretch['from']) => todo.push({ turn, lane: lane ?? lanes++, from });
  for (const root of (children.get(null) ?? []).toReversed()) push(root, null, null);
  while (todo.length) {
    const { turn: first, lane, from } = todo.pop()!;
    let turn = first;
    let count = 1;
    // A head in the middle is drawn: a session stands there.
    while (turn.heads.length === 0 && children.get(turn.id)?.length === 1) {
      turn = children.get(turn.id)![0]!;
      count++;
    }
    rows.push({ id: turn.id, first: first.id, count, heads: turn.heads, lane, from });
    const place = { lane, row: rows.length - 1 };
    // The first child goes on in the lane; it is drawn last, so that branches stay near their fork.
    const [next, ...branches] = children.get(turn.id) ?? [];
    if (next) push(next, lane, place);
    for (const branch of branches) push(branch, null, place);
  }
  return rows;
}
