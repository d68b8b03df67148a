// Two branches side by side: what they share in one line, then turn beside turn.
import { useEffect, useState } from 'preact/hooks';
import { at, get, told } from './api';
import { Failed, Icon, nameOf, ownLabel } from './bits';
import { hrefTo } from './route';
import { RowView } from './row';
import { rowsOf } from './rows';
import type { Session, Turn } from './types';

const PAGE = 50;
/** So many turns past the fork are shown of each. */
const TURNS_MAX = 200;

export interface Sides {
  /** How many turns both have. */
  shared: number;
  left: Turn[];
  right: Turn[];
  /** Whether older turns of their own were left out. */
  cut: boolean;
}

/** What each has of its own, oldest first, and how much they share. Both come newest first, whole down to `shared` or the end. */
export function sides(left: Turn[], right: Turn[]): Sides {
  const theirs = new Set(right.map((turn) => turn.id));
  const shared = left.find((turn) => theirs.has(turn.id)) ?? null;
  const own = (turns: Turn[]) => turns.filter((turn) => turn.depth > (shared?.depth ?? 0)).toReversed();
  return { shared: shared?.depth ?? 0, left: own(left), right: own(right), cut: false };
}

async function read(a: string, b: string): Promise<Sides> {
  const lines: [Turn[], Turn[]] = [[], []];
  const cursors: (string | null | undefined)[] = [undefined, undefined];
  for (;;) {
    // The one that is farther from its root is read on, until they meet.
    const depths = lines.map((line) => line.at(-1)?.depth ?? Infinity);
    const side = cursors[0] === null ? 1 : cursors[1] === null ? 0 : depths[0]! >= depths[1]! ? 0 : 1;
    if (cursors[side] === null) break;
    const from = cursors[side] ? `&cursor=${cursors[side]}` : '';
    const page = await get<{ turns: Turn[]; next_cursor: string | null }>(at(side === 0 ? a : b, `/turns?limit=${PAGE}${from}`));
    lines[side]!.push(...page.turns);
    cursors[side] = page.next_cursor;
    const known = new Set(lines[1].map((turn) => turn.id));
    if (lines[0].some((turn) => known.has(turn.id))) return sides(...lines);
    if (lines[0].length + lines[1].length > 2 * TURNS_MAX) return { ...sides(...lines), cut: true };
  }
  return sides(...lines);
}

export function Compare({ id, other }: { id: string; other: string }) {
  const [found, setFound] = useState<Sides | null>(null);
  const [names, setNames] = useState<[Session, Session] | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    setFound(null);
    Promise.all([get<Session>(at(id)), get<Session>(at(other)), read(id, other)])
      .then(([left, right, sides]) => {
        if (gone) return;
        setNames([left, right]);
        setFound(sides);
      })
      .catch((error) => setFailed(told(error)));
    return () => {
      gone = true;
    };
  }, [id, other]);
  const pairs = found ? Array.from({ length: Math.max(found.left.length, found.right.length) }, (_, n) => [found.left[n], found.right[n]] as const) : [];
  return (
    <main class="page compare" aria-label="Two branches side by side">
      <header class="bar">
        <a class="icon-button" href={hrefTo.session(id)} aria-label="Back to the conversation">
          <Icon name="back" />
        </a>
        <div class="bar-name">
          <h1>Side by side</h1>
        </div>
      </header>
      <Failed text={failed} />
      <div class="page-body" tabIndex={0} role="region" aria-label="Both branches">
        {names && (
          <div class="pair pair-head">
            {names.map((session) => (
              <a key={session.id} href={hrefTo.session(session.id)}>
                {nameOf(session)}
                <span class="hint"> {ownLabel(session)}</span>
              </a>
            ))}
          </div>
        )}
        {found && (
          <p class="shared">
            {found.shared === 0 ? 'They share nothing.' : `${found.shared} ${found.shared === 1 ? 'turn' : 'turns'} in common, then each goes its own way.`}
            {found.cut && ' Only the newest turns are shown.'}
          </p>
        )}
        {pairs.map(([left, right], n) => (
          <div class="pair" key={n}>
            <Side turn={left} />
            <Side turn={right} />
          </div>
        ))}
        {found && pairs.length === 0 && <p class="empty">Both are at the same turn.</p>}
      </div>
    </main>
  );
}

function Side({ turn }: { turn: Turn | undefined }) {
  if (!turn) return <div class="side none" />;
  return (
    <div class="side">
      {rowsOf(turn).map((row) => (
        <div class={`row row-${row.kind}`} key={row.key}>
          <RowView row={row} acts={null} />
        </div>
      ))}
    </div>
  );
}
