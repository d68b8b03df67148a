// The branches panel: a drawing of the turn tree with links to each branch and its comparison.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { errorText, get, post, sessionPath } from './api';
import type { Session, TreeTurn, Turn } from './api-types';
import { Chip } from './chip';
import { Icon } from './icon';
import { openToWrite } from './composer';
import { hrefTo } from './route';
import { messageText } from './row-model';
import { plural } from './session-display';
import { sessionsById } from './session-list-store';
import { layoutSegments, type Segment } from './tree-layout';

const ROW_PX = 58;
const LANE_PX = 18;
const LANE_COLORS = 6;
/** Segments beyond this number are not drawn. */
const SEGMENTS_MAX = 200;
/** Excerpts are fetched for this many segments. */
const EXCERPTS_MAX = 40;

export function BranchesPanel({ session }: { session: Session }) {
  const [turns, setTurns] = useState<TreeTurn[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    get<{ turns: TreeTurn[] }>(sessionPath(session.id, '/tree'))
      .then((tree) => setTurns(tree.turns))
      .catch((reason) => setError(errorText(reason)));
  }, [session.id, session.head]);
  const fork = async () => {
    try {
      const created = await post<Session>(sessionPath(session.id, '/fork'));
      openToWrite(created.id);
    } catch (reason) {
      setError(errorText(reason));
    }
  };
  return (
    <>
      <h2>Branches</h2>
      <p class="hint">Fork at any turn with the button below it. Each branch is its own session.</p>
      <ErrorMessage text={error} />
      {turns?.length === 0 && <p class="empty">No messages yet, so there is nothing to fork.</p>}
      {turns && turns.length > 0 && (
        <>
          <TreeDrawing
            segments={layoutSegments(turns, session.label).slice(0, SEGMENTS_MAX)}
            session={session}
          />
          <button type="button" onClick={() => void fork()}>
            <Icon name="fork" /> Fork at the head
          </button>
        </>
      )}
    </>
  );
}

function TreeDrawing({ segments, session }: { segments: Segment[]; session: Session }) {
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
        {segments.map(({ id, heads, lane }, row) => (
          <circle
            key={id}
            class={`${laneClass(lane)} ${heads.length ? 'head' : ''}`}
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
              <span class="hint">{plural(segment.count, 'turn')}</span>
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** Links to the session with this label and to its comparison with the current one. */
function HeadLink({ label, session }: { label: string; session: Session }) {
  if (label === session.label) return <Chip tone="live">current</Chip>;
  const other = [...sessionsById.value.values()].find((other) => other.label === label);
  const name = other?.title || label;
  return (
    <>
      <a class="chip" href={hrefTo.session(label)} title={label}>
        {name.slice(0, 28)}
      </a>
      <a
        class="icon-button"
        href={hrefTo.compare(session.label, label)}
        aria-label={`Compare with ${name}`}
        title={`Compare with ${name}`}
      >
        <Icon name="compare" />
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
