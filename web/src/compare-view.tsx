// Two branches side by side: the number of shared turns, then each branch's own turns in pairs.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { errorText, get, sessionPath } from './api';
import type { Session, Turn } from './api-types';
import { markDifferences } from './difference-marks';
import { ForkOrigin } from './fork-origin';
import { Icon } from './icon';
import { hrefTo } from './route';
import { turnRows } from './row-model';
import { RowView } from './row-view';
import { customLabel, plural } from './session-display';
import { storeSessions } from './session-list-store';
import { distinctNames, sessionName } from './session-names';

const PAGE_SIZE = 50;
/** Loading stops when this many turns per branch have no common ancestor. */
const TURNS_MAX = 200;

const SIDES = ['left', 'right'] as const;
type Side = (typeof SIDES)[number];

interface Comparison {
  /** Number of shared turns. */
  shared: number;
  left: Turn[];
  right: Turn[];
  /** True if the common ancestor was not reached, so that older turns are missing. */
  isTruncated: boolean;
}

/** Splits both branches at their newest common turn. Input is newest first, output oldest first. */
function splitAtFork(left: Turn[], right: Turn[], isTruncated = false): Comparison {
  const rightIds = new Set(right.map((turn) => turn.id));
  const shared = left.find((turn) => rightIds.has(turn.id))?.depth ?? 0;
  const own = (turns: Turn[]) => turns.filter((turn) => turn.depth > shared).toReversed();
  return { shared, left: own(left), right: own(right), isTruncated };
}

async function loadComparison(leftId: string, rightId: string): Promise<Comparison> {
  const branches: [Turn[], Turn[]] = [[], []];
  /** undefined: first page; null: no more pages. */
  const cursors: (string | null | undefined)[] = [undefined, undefined];
  for (;;) {
    // Load more of the branch that is further from its root, until both contain the same turn.
    const depths = branches.map((turns) => turns.at(-1)?.depth ?? Infinity);
    const deeper = depths[0]! >= depths[1]! ? 0 : 1;
    const side = cursors[0] === null ? 1 : cursors[1] === null ? 0 : deeper;
    if (cursors[side] === null) break;
    const from = cursors[side] ? `&cursor=${cursors[side]}` : '';
    const page = await get<{ turns: Turn[]; next_cursor: string | null }>(
      sessionPath(side === 0 ? leftId : rightId, `/turns?limit=${PAGE_SIZE}${from}`),
    );
    branches[side]!.push(...page.turns);
    cursors[side] = page.next_cursor;
    const rightIds = new Set(branches[1].map((turn) => turn.id));
    if (branches[0].some((turn) => rightIds.has(turn.id))) return splitAtFork(...branches);
    if (branches[0].length + branches[1].length > 2 * TURNS_MAX) {
      return splitAtFork(...branches, true);
    }
  }
  return splitAtFork(...branches);
}

export function CompareView({ id, other }: { id: string; other: string }) {
  const [comparison, setComparison] = useState<Comparison | null>(null);
  const [sessions, setSessions] = useState<[Session, Session] | null>(null);
  const [error, setError] = useState<string | null>(null);
  /** On a narrow screen one branch is shown at a time. */
  const [shown, setShown] = useState<Side>('left');
  useEffect(() => {
    let cancelled = false;
    setComparison(null);
    Promise.all([
      get<Session>(sessionPath(id)),
      get<Session>(sessionPath(other)),
      loadComparison(id, other),
    ])
      .then(([left, right, loaded]) => {
        if (cancelled) return;
        storeSessions([left, right]);
        setSessions([left, right]);
        setComparison(loaded);
      })
      .catch((reason) => setError(errorText(reason)));
    return () => {
      cancelled = true;
    };
  }, [id, other]);
  const names = sessions
    ? distinctNames(sessions.map((one) => ({ key: one.id, name: sessionName(one) })))
    : [];
  return (
    <main class="page compare" aria-label="Compare branches">
      <header class="header-bar">
        <a class="icon-button" href={hrefTo.session(id)} aria-label="Back to the session">
          <Icon name="back" />
        </a>
        <div class="header-name">
          <h1>Compare branches</h1>
        </div>
      </header>
      <ErrorMessage text={error} />
      {sessions && (
        <div class="branch-tabs" role="group" aria-label="Branch">
          {SIDES.map((side, n) => (
            <button
              key={side}
              type="button"
              aria-pressed={shown === side}
              onClick={() => setShown(side)}
            >
              <span>{names[n]}</span>
            </button>
          ))}
        </div>
      )}
      <div class={`page-body shows-${shown}`} tabIndex={0} role="region" aria-label="Both branches">
        {sessions && comparison && (
          <BranchHeads sessions={sessions} names={names} comparison={comparison} />
        )}
        {comparison && <Pairs comparison={comparison} />}
      </div>
    </main>
  );
}

function Pairs({ comparison }: { comparison: Comparison }) {
  const { shared, left, right, isTruncated } = comparison;
  const length = Math.max(left.length, right.length);
  return (
    <>
      <p class="shared">
        {shared === 0 ? 'No turns in common.' : `${plural(shared, 'turn')} in common.`}
        {isTruncated && ' Only the newest turns are shown.'}
      </p>
      {Array.from({ length }, (_, n) => (
        <Pair key={n} depth={shared + n + 1} left={left[n]} right={right[n]} />
      ))}
      {length === 0 && <p class="empty">Both branches have the same head.</p>}
    </>
  );
}

interface HeadsProps {
  sessions: [Session, Session];
  names: string[];
  comparison: Comparison;
}

function BranchHeads({ sessions, names, comparison }: HeadsProps) {
  return (
    <div class="pair pair-head">
      {SIDES.map((side, n) => {
        const session = sessions[n]!;
        const turns = comparison[side].length;
        return (
          <div key={side} class={side}>
            <h2 dir="auto">
              <a href={hrefTo.session(session.id)}>{names[n]}</a>{' '}
              <span class="hint">
                {[customLabel(session), `${plural(turns, 'turn')} of its own`]
                  .filter(Boolean)
                  .join(' · ')}
              </span>
            </h2>
            {session.origin === 'fork' && (
              <p class="hint">
                <ForkOrigin session={session} />
              </p>
            )}
          </div>
        );
      })}
    </div>
  );
}

interface PairProps {
  depth: number;
  left: Turn | undefined;
  right: Turn | undefined;
}

/** The turns of both branches at one depth. The words that differ are marked. */
function Pair({ depth, left, right }: PairProps) {
  const element = useRef<HTMLDivElement>(null);
  const [count, setCount] = useState<number | null>(null);
  useEffect(() => {
    if (!left || !right) return;
    const marked = markDifferences(element.current!);
    setCount(marked?.count ?? null);
    return marked?.clear;
  }, [left, right]);
  const note =
    !left || !right
      ? 'only on one branch'
      : count === null
        ? 'differs'
        : count === 0
          ? 'the same on both branches'
          : `${plural(count, 'word')} differ${count === 1 ? 's' : ''}`;
  return (
    <div class="pair" ref={element}>
      <p class="pair-note">
        Turn {depth}
        {note && ` · ${note}`}
      </p>
      <BranchTurn side="left" turn={left} />
      <BranchTurn side="right" turn={right} />
    </div>
  );
}

function BranchTurn({ side, turn }: { side: Side; turn: Turn | undefined }) {
  if (!turn) return <div class={`side none ${side}`} />;
  return (
    <div class={`side ${side}`}>
      {turnRows(turn).map((row) => (
        <div class={`row row-${row.kind}`} key={row.key}>
          <RowView row={row} actions={null} />
        </div>
      ))}
    </div>
  );
}
