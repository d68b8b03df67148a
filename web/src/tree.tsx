// The branches of a conversation, drawn, and the way to put two of them side by side.
import { useEffect, useState } from 'preact/hooks';
import { at, get, post, told } from './api';
import { Chip, Failed, Icon } from './bits';
import { stretches, type Stretch } from './branches';
import { go, hrefTo } from './route';
import { fetchTurn } from './row';
import { textOf } from './rows';
import { known } from './sessions';
import type { Session, TreeTurn } from './types';

const ROW_PX = 58;
const LANE_PX = 18;
/** More stretches than these are not drawn. */
const ROWS_MAX = 200;
/** The first words of so many stretches are fetched. */
const WORDS_MAX = 40;

export function TreePanel({ session }: { session: Session }) {
  const [turns, setTurns] = useState<TreeTurn[] | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  useEffect(() => {
    get<{ turns: TreeTurn[] }>(at(session.id, '/tree'))
      .then((tree) => setTurns(tree.turns))
      .catch((error) => setFailed(told(error)));
  }, [session.id, session.head]);
  const fork = async () => {
    try {
      go(hrefTo.session((await post<Session>(at(session.id, '/fork'))).id));
    } catch (error) {
      setFailed(told(error));
    }
  };
  return (
    <>
      <h2>Branches</h2>
      <p class="hint">Fork at any turn with the mark below it. Both branches go on by themselves.</p>
      <Failed text={failed} />
      {turns?.length === 0 && <p class="empty">Nothing was said yet, so there is nothing to fork.</p>}
      {turns && turns.length > 0 && (
        <>
          <Drawing rows={stretches(turns, session.label).slice(0, ROWS_MAX)} session={session} />
          <button type="button" onClick={() => void fork()}>
            <Icon name="fork" /> Fork at the head
          </button>
        </>
      )}
    </>
  );
}

function Drawing({ rows, session }: { rows: Stretch[]; session: Session }) {
  const words = useWords(rows);
  const lanes = Math.max(...rows.map((row) => row.lane)) + 1;
  const x = (lane: number) => 10 + lane * LANE_PX;
  const y = (row: number) => ROW_PX / 2 + row * ROW_PX;
  return (
    <div class="tree">
      <svg width={lanes * LANE_PX + 8} height={rows.length * ROW_PX} aria-hidden="true" focusable="false">
        {rows.map(
          (row, n) =>
            row.from && (
              <path key={row.id} class={`lane lane-${row.lane % 6}`} d={curve(x(row.from.lane), y(row.from.row), x(row.lane), y(n))} />
            ),
        )}
        {rows.map((row, n) => (
          <circle key={row.id} class={`lane-${row.lane % 6} ${row.heads.length ? 'head' : ''}`} cx={x(row.lane)} cy={y(n)} r={row.heads.length ? 5.5 : 4} />
        ))}
      </svg>
      <ol>
        {rows.map((row) => (
          <li key={row.id}>
            <a class="plain tree-words" href={hrefTo.turn(row.heads[0] ?? session.id, row.first)}>
              {words.get(row.first) ?? '…'}
            </a>
            <span class="tree-about">
              {row.heads.map((label) => (
                <HeadLink key={label} label={label} session={session} />
              ))}
              <span class="hint">{row.count === 1 ? '1 turn' : `${row.count} turns`}</span>
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function HeadLink({ label, session }: { label: string; session: Session }) {
  if (label === session.label) return <Chip tone="live">here</Chip>;
  const other = [...known.value.values()].find((other) => other.label === label);
  const name = other?.title || label;
  return (
    <>
      <a class="chip" href={hrefTo.session(label)} title={label}>
        {name.slice(0, 28)}
      </a>
      <a class="icon-button" href={hrefTo.compare(session.label, label)} aria-label={`Compare with ${name}`} title={`Compare with ${name}`}>
        <Icon name="compare" />
      </a>
    </>
  );
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  if (x1 === x2) return `M${x1} ${y1}V${y2}`;
  const bend = Math.min(24, y2 - y1);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y1} ${x2} ${y1 + bend}V${y2}`;
}

/** The first words of each stretch. */
function useWords(rows: Stretch[]): Map<string, string> {
  const [words, setWords] = useState(new Map<string, string>());
  const wanted = rows.slice(0, WORDS_MAX).map((row) => row.first);
  useEffect(() => {
    let gone = false;
    void (async () => {
      for (const id of wanted) {
        if (words.has(id)) continue;
        const turn = await fetchTurn(id).catch(() => null);
        if (gone) return;
        const said = turn?.messages.find((message) => message.role === 'user') ?? turn?.messages[0];
        setWords((before) => new Map(before).set(id, said ? textOf(said).replace(/\s+/g, ' ').slice(0, 80) || '(no words)' : '(gone)'));
      }
    })();
    return () => {
      gone = true;
    };
  }, [wanted.join()]);
  return words;
}
