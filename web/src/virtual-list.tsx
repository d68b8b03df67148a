// A virtual list: only the rows near the viewport are in the page. Rows are measured when they are
// drawn. The visible rows keep their position when heights above them change. The list follows its
// end while the user is there.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { markFound } from './found-mark';
import { RowHeights } from './row-heights';
import { GAP_TURN_PX, messageText, type Row } from './row-model';

/** Rows are drawn this far above and below the viewport. */
const OVERSCAN_PX = 500;
/** Gaps this close to the viewport are loaded. */
const PRELOAD_PX = 4000;
/** The list follows its end if the user is this close to it. */
const END_PX = 40;

interface Props {
  rows: Row[];
  draw(row: Row): ComponentChildren;
  /** Called when a turn that is not loaded comes near the viewport. */
  onGapNear(depth: number): void;
  /** Called on every scroll with whether the user is at the end. */
  onScrolled(isAtEnd: boolean): void;
  label: string;
  /** The turn to scroll to, each time `request` changes. */
  target: { depth: number; request: number } | null;
  /** Words in the turn to scroll to. */
  find: string | null;
  /** Receives the turn at the top of the viewport, and whether the user has scrolled. */
  position: { current: { depth: number; isMoved: boolean } | null };
  /** Scrolls to the end each time this changes. */
  scrollToEndRequest: number;
}

/** The row at the top of the viewport, and how far it is scrolled. */
interface Anchor {
  key: string;
  offset: number;
  depth: number;
}

export function VirtualList(props: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLDivElement>(null);
  const drawn = useRef<HTMLDivElement>(null);
  const [heights] = useState(() => new RowHeights());
  const [[first, last], setRange] = useState<[number, number]>([0, 0]);
  const anchor = useRef<Anchor | null>(null);
  const followsEnd = useRef(true);
  // Current values for the observer and the scroll handler, which outlive a render.
  const rows = useRef(props.rows);
  const latestProps = useRef(props);
  const firstDrawn = useRef(first);
  [rows.current, latestProps.current, firstDrawn.current] = [props.rows, props, first];
  heights.reset(
    props.rows.map((row) => row.key),
    props.rows.map((row) => row.estimatedHeight),
  );

  const updateRange = () => {
    // Events may arrive once more after the list was removed.
    if (!scroller.current) return;
    const { scrollTop, clientHeight } = scroller.current;
    const next = heights.range(scrollTop - OVERSCAN_PX, scrollTop + clientHeight + OVERSCAN_PX);
    setRange((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
    reportNearGaps(scrollTop, clientHeight);
  };

  const reportNearGaps = (top: number, height: number) => {
    const [begin, end] = heights.range(top - PRELOAD_PX, top + height + PRELOAD_PX);
    for (let n = begin; n < end; n++) {
      const row = rows.current[n];
      if (row?.kind !== 'gap') continue;
      // The turn in the gap that is at the bottom of the viewport, or nearest to it.
      const turnsBefore = (top + height - heights.start(n)) / GAP_TURN_PX;
      latestProps.current.onGapNear(
        Math.max(row.from, Math.min(row.to, row.from + Math.floor(turnsBefore))),
      );
    }
  };

  const onScroll = () => {
    if (!scroller.current) return;
    const { scrollTop, clientHeight, scrollHeight } = scroller.current;
    followsEnd.current = scrollTop + clientHeight >= scrollHeight - END_PX;
    latestProps.current.onScrolled(followsEnd.current);
    saveAnchor(scrollTop);
    if (anchor.current) {
      const { depth } = anchor.current;
      const isMoved = latestProps.current.position.current?.isMoved ?? true;
      latestProps.current.position.current = { depth, isMoved };
    }
    updateRange();
  };
  const onUserScroll = () => {
    const { position } = latestProps.current;
    if (position.current) position.current.isMoved = true;
  };

  const saveAnchor = (scrollTop: number) => {
    const n = heights.indexAt(scrollTop);
    const row = rows.current[n];
    if (!row) return;
    const offset = scrollTop - heights.start(n);
    anchor.current = {
      key: row.key,
      offset,
      depth: row.kind === 'gap' ? row.from + Math.floor(offset / GAP_TURN_PX) : row.depth,
    };
  };

  /** Positions the drawn rows and restores the scroll position after rows or heights changed. */
  const applyLayout = () => {
    if (!canvas.current) return;
    canvas.current.style.height = `${heights.total}px`;
    drawn.current!.style.transform = `translateY(${heights.start(firstDrawn.current)}px)`;
    const box = scroller.current!;
    const saved = anchor.current;
    if (followsEnd.current) box.scrollTop = heights.total;
    else if (saved) {
      let n = heights.index(saved.key);
      let offset = saved.offset;
      const row = rows.current[n];
      if (n < 0 || (row?.kind === 'gap' && row.to < saved.depth)) {
        n = rows.current.findIndex((row) => row.depth >= saved.depth);
        offset = 0;
      }
      const top = n < 0 ? box.scrollTop : heights.start(n) + offset;
      if (Math.abs(box.scrollTop - top) >= 1) box.scrollTop = top;
    }
  };

  const measure = () => {
    for (const child of drawn.current!.children as Iterable<HTMLElement & Element>) {
      const row = rows.current[heights.index((child as HTMLElement).dataset.key!)];
      if (row && row.kind !== 'gap') heights.measure(row.key, child.getBoundingClientRect().height);
    }
  };

  useLayoutEffect(() => {
    measure();
    applyLayout();
    updateRange();
  });

  useEffect(() => {
    let width = 0;
    const observer = new ResizeObserver(() => {
      // The observer may call once more after the list was removed.
      if (!canvas.current) return;
      const newWidth = canvas.current.clientWidth;
      if (width && newWidth !== width) heights.clearMeasured();
      width = newWidth;
      measure();
      applyLayout();
      updateRange();
    });
    observer.observe(scroller.current!);
    observer.observe(drawn.current!);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    followsEnd.current = true;
    applyLayout();
    updateRange();
  }, [props.scrollToEndRequest]);

  useLayoutEffect(() => {
    if (!props.target) return;
    const { depth } = props.target;
    const first = props.rows.findIndex((row) =>
      row.kind === 'gap' ? row.to >= depth : row.depth >= depth,
    );
    const found = props.find ? findRow(props.rows, depth, props.find) : -1;
    const n = found < 0 ? first : found;
    const row = props.rows[n];
    if (!row) return;
    followsEnd.current = false;
    anchor.current = {
      key: row.key,
      offset: row.kind === 'gap' ? (depth - row.from) * GAP_TURN_PX : 0,
      depth,
    };
    applyLayout();
    updateRange();
    const { find } = props;
    if (!find) return;
    // After the row is drawn.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        const drawnRow = [...(drawn.current?.children ?? [])].find(
          (child) => (child as HTMLElement).dataset.key === row.key,
        );
        markFound(drawnRow ?? null, find);
      }),
    );
  }, [props.target?.request, props.find]);

  return (
    <div
      class="scroller"
      ref={scroller}
      onScroll={onScroll}
      onWheel={onUserScroll}
      onTouchMove={onUserScroll}
      tabIndex={0}
      role="region"
      aria-label={props.label}
    >
      <div class="canvas" ref={canvas}>
        <div class="drawn-rows" ref={drawn}>
          {props.rows.slice(first, last).map((row) => (
            <div
              class={`row row-${row.kind}${row.depth === props.target?.depth ? ' target' : ''}`}
              key={row.key}
              data-key={row.key}
            >
              {props.draw(row)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** The first row of a turn that contains the words; -1 if there is none. */
function findRow(rows: Row[], depth: number, words: string): number {
  const wanted = words.toLowerCase();
  return rows.findIndex(
    (row) => row.depth === depth && rowText(row).toLowerCase().includes(wanted),
  );
}

function rowText(row: Row): string {
  switch (row.kind) {
    case 'text':
      return row.source;
    case 'user':
      return messageText(row.message);
    case 'thought':
    case 'notice':
      return row.text;
    case 'tool':
      return JSON.stringify([row.call?.name, row.call?.params, row.result?.content]);
    case 'tools':
      return row.calls.map(rowText).join(' ');
    case 'error':
      return row.part.message;
    default:
      return '';
  }
}
