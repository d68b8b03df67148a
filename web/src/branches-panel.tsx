// The branches panel: a drawing of the turn tree with links to each branch and its comparison.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { errorText, get, sessionPath } from './api';
import type { Session, TreeTurn, Turn } from './api-types';
import { Chip } from './chip';
import { Icon } from './icon';
import { hrefTo } from './route';
import { messageText } from './row-model';
import { fork, restore } from './session-actions';
import { plural } from './session-display';
import { sessionsById, storeSessions } from './session-list-store';
import { SessionName } from './session-name';
import { sessionName } from './session-names';
import { showError } from './toast';
import { layoutSegments, sideBranch, type Segment } from './tree-layout';

const ROW_PX = 58;
const LANE_PX = 18;
const LANE_COLORS = 6;
/** Segments beyond this number are not drawn. */
const SEGMENTS_MAX = 200;
/** Excerpts are fetched for this many segments. */
const EXCERPTS_MAX = 40;

/** Pages of head moves that are read to find out which rewound turns are of this session. */
const HISTORY_PAGES_MAX = 5;
const HISTORY_PAGE_SIZE = 200;
/** Sessions of other branches whose names are fetched. */
const NAMES_MAX = 20;

export function BranchesPanel({ session }: { session: Session }) {
  const [turns, setTurns] = useState<TreeTurn[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    get<{ turns: TreeTurn[] }>(sessionPath(session.id, '/tree'))
      .then((tree) => {
        setTurns(tree.turns);
        return fetchNames(tree.turns);
      })
      .catch((reason) => setError(errorText(reason)));
  }, [session.id, session.head, session.state]);
  return (
    <>
      <h2>Branches</h2>
      <p class="hint">
        A fork starts a second conversation at a turn. The button <Icon name="fork" /> below each
        turn makes one.
      </p>
      <ErrorMessage text={error} />
      {turns?.length === 0 && (
        <p class="empty">
          {session.state === 'idle'
            ? 'No messages yet, so there is nothing to fork.'
            : 'The first turn is not complete yet. You can fork when it is.'}
        </p>
      )}
      {turns && turns.length > 0 && (
        <>
          <TreeDrawing turns={turns} session={session} />
          <button
            type="button"
            disabled={!session.head}
            onClick={() => void fork(session.id).catch((reason) => setError(errorText(reason)))}
          >
            <Icon name="fork" /> Fork at the newest turn
          </button>
        </>
      )}
    </>
  );
}

/** Fetches the sessions of the branches that are not known yet, for their names. */
async function fetchNames(turns: TreeTurn[]): Promise<void> {
  const known = new Set([...sessionsById.value.values()].map(({ label }) => label));
  const labels = turns.flatMap(({ heads }) => heads).filter((label) => !known.has(label));
  const found = await Promise.all(
    labels.slice(0, NAMES_MAX).map((label) => get<Session>(sessionPath(label)).catch(() => null)),
  );
  storeSessions(found.filter((one) => one !== null));
}

/** The turns that were the head of the session. Rewound turns of other sessions are not among them. */
function useFormerHeads(session: Session, isNeeded: boolean): ReadonlySet<string> {
  const [heads, setHeads] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    if (!isNeeded) return;
    let isCurrent = true;
    void fetchFormerHeads(session.id).then(
      (found) => isCurrent && setHeads(found),
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, [session.id, session.head, isNeeded]);
  return heads;
}

async function fetchFormerHeads(session: string): Promise<Set<string>> {
  const heads = new Set<string>();
  let cursor = '';
  for (let page = 0; page < HISTORY_PAGES_MAX; page++) {
    const { history, next_cursor } = await get<{
      history: { turn: string | null }[];
      next_cursor: string | null;
    }>(sessionPath(session, `/history?limit=${HISTORY_PAGE_SIZE}${cursor}`));
    for (const { turn } of history) if (turn) heads.add(turn);
    if (!next_cursor) break;
    cursor = `&cursor=${next_cursor}`;
  }
  return heads;
}

function TreeDrawing({ turns, session }: { turns: TreeTurn[]; session: Session }) {
  const segments = layoutSegments(turns, session.label).slice(0, SEGMENTS_MAX);
  const formerHeads = useFormerHeads(
    session,
    segments.some(({ isRewound }) => isRewound),
  );
  const excerpts = useExcerpts(segments);
  const lanes = Math.max(...segments.map((segment) => segment.lane)) + 1;
  const x = (lane: number) => 10 + lane * LANE_PX;
  const y = (row: number) => ROW_PX / 2 + row * ROW_PX;
  const laneClass = (lane: number) => `lane-${lane % LANE_COLORS}`;
  return (
    <div class="tree">
      <svg
        width={lanes * LANE_PX + 8}
        height={segments.length * ROW_PX}
        aria-hidden="true"
        focusable="false"
      >
        {segments.map(
          ({ id, from, lane }, row) =>
            from && (
              <path
                key={id}
                class={laneClass(lane)}
                d={connector(x(from.lane), y(from.row), x(lane), y(row))}
              />
            ),
        )}
        {segments.map(({ id, heads, lane, isRewound }, row) => (
          <circle
            key={id}
            class={`${laneClass(lane)} ${heads.length ? 'head' : ''} ${isRewound ? 'rewound' : ''}`}
            cx={x(lane)}
            cy={y(row)}
            r={heads.length ? 5.5 : 4}
          />
        ))}
      </svg>
      <ol>
        {segments.map((segment) => (
          <li key={segment.id}>
            <a
              class="plain tree-excerpt"
              href={hrefTo.turn(segment.heads[0] ?? session.id, segment.first)}
            >
              {excerpts.get(segment.first) ?? '…'}
            </a>
            <span class="tree-details">
              {segment.heads.map((label) => (
                <HeadLink key={label} label={label} session={session} />
              ))}
              {segment.isRewound && <Chip>rewound</Chip>}
              <span class="hint">{plural(segment.count, 'turn')}</span>
              {formerHeads.has(segment.id) && segment.isRewound && (
                <RestoreButton turns={turns} segment={segment} session={session} />
              )}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** Makes rewound turns the end of the conversation again. */
function RestoreButton({ turns, segment, session }: RestoreProps) {
  const branch = sideBranch(turns, session.label, segment.id);
  if (!branch?.shared) return null;
  const { shared, turns: restored } = branch;
  const isIdle = session.state === 'idle';
  return (
    <button
      type="button"
      class="link"
      disabled={!isIdle}
      title={
        isIdle ? 'Make these turns part of the conversation again' : 'Not while the agent works'
      }
      onClick={() =>
        void restore(session, restored.at(-1)!.id, shared, restored.length).catch(showError)
      }
    >
      Restore
    </button>
  );
}

interface RestoreProps {
  turns: TreeTurn[];
  segment: Segment;
  session: Session;
}

/** Links to the session with this label and to its comparison with the current one. */
function HeadLink({ label, session }: { label: string; session: Session }) {
  if (label === session.label) return <Chip tone="live">current</Chip>;
  const other = [...sessionsById.value.values()].find((other) => other.label === label);
  const name = other ? sessionName(other) : label;
  return (
    <>
      <a class="chip" href={hrefTo.session(label)} title={name}>
        {other ? <SessionName session={other} /> : label}
      </a>
      <a
        class="link"
        href={hrefTo.compare(session.label, label)}
        aria-label={`Compare with ${name}`}
        title={`Compare with ${name}`}
      >
        Compare
      </a>
    </>
  );
}

/** SVG path from a segment down to its child: a bend to the lane of the child, then straight. */
function connector(x1: number, y1: number, x2: number, y2: number): string {
  if (x1 === x2) return `M${x1} ${y1}V${y2}`;
  const bend = Math.min(24, y2 - y1);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y1} ${x2} ${y1 + bend}V${y2}`;
}

/** The start of the first message of each segment, by the id of its first turn. */
function useExcerpts(segments: Segment[]): Map<string, string> {
  const [excerpts, setExcerpts] = useState(new Map<string, string>());
  const wanted = segments.slice(0, EXCERPTS_MAX).map((segment) => segment.first);
  useEffect(() => {
    let cancelled = false;
    void (async () => {
      for (const id of wanted) {
        if (excerpts.has(id)) continue;
        const turn = await get<Turn>(`/turns/${id}`).catch(() => null);
        if (cancelled) return;
        setExcerpts((before) => new Map(before).set(id, excerptOf(turn)));
      }
    })();
    return () => {
      cancelled = true;
    };
  }, [wanted.join()]);
  return excerpts;
}

function excerptOf(turn: Turn | null): string {
  const message = turn?.messages.find((message) => message.role === 'user') ?? turn?.messages[0];
  if (!message) return '(not available)';
  return messageText(message).replace(/\s+/g, ' ').slice(0, 80) || '(no text)';
}
