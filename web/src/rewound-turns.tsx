// Turns beside the conversation of a session: rewound turns, and turns of another branch. They are
// read-only; rewound turns can be restored.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { errorText, get, sessionPath } from './api';
import type { Session, TreeTurn, Turn } from './api-types';
import { Icon } from './icon';
import { hrefTo, navigate } from './route';
import { turnRows, type Row } from './row-model';
import { RowView } from './row-view';
import { fork, restore } from './session-actions';
import { plural } from './session-display';
import { sideBranch, type SideBranch } from './tree-layout';
import { VirtualList } from './virtual-list';

/** Turns of a branch that are shown; those nearest to the wanted turn. */
const TURNS_MAX = 200;
const PAGE_SIZE = 50;

interface Props {
  session: Session;
  /** The turn to show. */
  turn: string;
  /** Words to mark in it. */
  find: string | null;
}

export function RewoundTurns({ session, turn, find }: Props) {
  const [branch, setBranch] = useState<SideBranch | null>(null);
  const [turns, setTurns] = useState<Turn[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const position = useRef<{ depth: number; isMoved: boolean } | null>(null);
  useEffect(() => {
    let isCurrent = true;
    setTurns(null);
    load(session, turn).then(
      ([found, loaded]) => {
        if (!isCurrent) return;
        setBranch(found);
        setTurns(loaded);
      },
      (reason) => isCurrent && setError(errorText(reason)),
    );
    return () => {
      isCurrent = false;
    };
  }, [session.id, session.head, turn]);
  const rows = useMemo(() => (turns ?? []).flatMap(turnRows), [turns]);
  const wanted = turns?.find((one) => one.id === turn);
  return (
    <>
      <div class="transcript rewound">
        <ErrorMessage text={error} />
        {branch && wanted && (
          <>
            <p class="rewound-note" role="status">
              <Icon name="rewind" /> <strong>{titleOf(branch)}</strong> {describe(branch)}
            </p>
            <VirtualList
              key={turn}
              rows={rows}
              draw={(row: Row) => <RowView row={row} actions={null} />}
              onGapNear={() => undefined}
              onScrolled={() => undefined}
              label={titleOf(branch)}
              target={{ depth: wanted.depth, request: 1 }}
              find={find}
              position={position}
              scrollToEndRequest={0}
            />
          </>
        )}
      </div>
      {branch && <Actions session={session} branch={branch} turn={turn} />}
    </>
  );
}

const titleOf = ({ turns, heads }: SideBranch) =>
  heads.length
    ? `${plural(turns.length, 'turn')} of another branch`
    : `${plural(turns.length, 'rewound turn')}`;

const describe = ({ heads, shared }: SideBranch) =>
  heads.length
    ? 'This session does not have them.'
    : `The agent does not see them.${shared ? ' You can restore them.' : ''}`;

interface ActionsProps {
  session: Session;
  branch: SideBranch;
  turn: string;
}

function Actions({ session, branch, turn }: ActionsProps) {
  const [busy, error, run] = useAction();
  const { turns, shared, heads } = branch;
  const last = turns.at(-1)!;
  const isIdle = session.state === 'idle';
  const back = hrefTo.session(session.id);
  return (
    <div class="dock">
      <div class="column buttons">
        {heads.length > 0 && (
          <a class="button primary" href={hrefTo.turn(heads[0]!, turn)}>
            Open that branch
          </a>
        )}
        {heads.length === 0 && shared && (
          <button
            type="button"
            class="primary"
            disabled={busy || !isIdle}
            title={
              isIdle
                ? 'Makes these turns the end of the conversation again'
                : 'Not while the agent works'
            }
            onClick={() =>
              run(async () => {
                await restore(session, last.id, shared, turns.length);
                navigate(back);
              })
            }
          >
            <Icon name="rewind" /> Restore
          </button>
        )}
        {heads.length === 0 && (
          <button
            type="button"
            disabled={busy}
            onClick={() => run(() => fork(session.id, last.id))}
          >
            <Icon name="fork" /> Continue them in a fork
          </button>
        )}
        <a class="button" href={back}>
          Back to the conversation
        </a>
        <ErrorMessage text={error} />
      </div>
    </div>
  );
}

/** The branch of a turn and its turns, oldest first. */
async function load(session: Session, turn: string): Promise<[SideBranch, Turn[]]> {
  const tree = await get<{ turns: TreeTurn[] }>(sessionPath(session.id, '/tree'));
  const branch = sideBranch(tree.turns, session.label, turn);
  if (!branch) throw new Error('This turn is part of the conversation.');
  const at = branch.turns.findIndex((one) => one.id === turn);
  const end = Math.min(branch.turns.length, Math.max(at + TURNS_MAX / 2, TURNS_MAX));
  const wanted = branch.turns.slice(Math.max(0, end - TURNS_MAX), end);
  const loaded: Turn[] = [];
  // Pages go from the newest turn to the oldest.
  while (loaded.length < wanted.length) {
    const left = wanted.length - loaded.length;
    const path = `/turns?limit=${Math.min(PAGE_SIZE, left)}&cursor=${wanted[left - 1]!.id}`;
    const page = await get<{ turns: Turn[] }>(sessionPath(session.id, path));
    if (page.turns.length === 0) break;
    loaded.unshift(...page.turns.toReversed());
  }
  return [branch, loaded];
}
