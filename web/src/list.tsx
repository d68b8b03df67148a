// A long list of which only what is in sight is in the page. Rows are measured when they are drawn; what is in sight
// stays where it is when heights above it turn out otherwise, and the end is followed while the reader is there.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Heights } from './heights';
import { GAP_TURN_PX, type Row } from './rows';

/** How much is drawn beyond what is in sight. */
const MARGIN_PX = 500;
/** A gap this near is fetched. */
const NEAR_PX = 4000;
/** This near to the end, the reader is at the end. */
const END_PX = 40;

export interface ListProps {
  rows: Row[];
  draw(row: Row): ComponentChildren;
  /** A turn that was not fetched comes near. */
  want(depth: number): void;
  /** Whether the reader is at the end. */
  ended(at: boolean): void;
  label: string;
  /** Scroll there when it changes. */
  target: { depth: number; n: number } | null;
  toEnd: number;
}

interface Anchor {
  key: string;
  delta: number;
  depth: number;
}

export function List(props: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLDivElement>(null);
  const shown = useRef<HTMLDivElement>(null);
  const [heights] = useState(() => new Heights());
  const [[first, last], setRange] = useState<[number, number]>([0, 0]);
  const anchor = useRef<Anchor | null>(null);
  const stuck = useRef(true);
  // What the observer and the scroll handler see: they outlive the render that made them.
  const rows = useRef(props.rows);
  const tell = useRef(props);
  const from = useRef(first);
  [rows.current, tell.current, from.current] = [props.rows, props, first];
  heights.reset(props.rows.map((row) => row.key), props.rows.map((row) => row.guess));

  const look = () => {
    const { scrollTop, clientHeight } = scroller.current!;
    const next = heights.range(scrollTop - MARGIN_PX, scrollTop + clientHeight + MARGIN_PX);
    setRange((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
    nearGaps(scrollTop, clientHeight);
  };

  const nearGaps = (top: number, height: number) => {
    const [begin, end] = heights.range(top - NEAR_PX, top + height + NEAR_PX);
    for (let n = begin; n < end; n++) {
      const row = rows.current[n];
      if (row?.kind !== 'gap') continue;
      // The part of the gap that is in sight, or nearest to it.
      const inside = (top + height - heights.start(n)) / GAP_TURN_PX;
      tell.current.want(Math.max(row.from, Math.min(row.to, row.from + Math.floor(inside))));
    }
  };

  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = scroller.current!;
    stuck.current = scrollTop + clientHeight >= scrollHeight - END_PX;
    tell.current.ended(stuck.current);
    keep(scrollTop);
    look();
  };

  const keep = (scrollTop: number) => {
    const n = heights.find(scrollTop);
    const row = rows.current[n];
    if (!row) return;
    const delta = scrollTop - heights.start(n);
    anchor.current = { key: row.key, delta, depth: row.kind === 'gap' ? row.from + Math.floor(delta / GAP_TURN_PX) : row.depth };
  };

  /** Puts everything where it belongs after rows or heights changed. */
  const place = () => {
    canvas.current!.style.height = `${heights.total}px`;
    shown.current!.style.transform = `translateY(${heights.start(from.current)}px)`;
    const box = scroller.current!;
    const held = anchor.current;
    if (stuck.current) box.scrollTop = heights.total;
    else if (held) {
      let n = heights.index(held.key);
      let delta = held.delta;
      const row = rows.current[n];
      if (n < 0 || (row?.kind === 'gap' && row.to < held.depth)) {
        n = rows.current.findIndex((row) => row.depth >= held.depth);
        delta = 0;
      }
      const top = n < 0 ? box.scrollTop : heights.start(n) + delta;
      if (Math.abs(box.scrollTop - top) >= 1) box.scrollTop = top;
    }
  };

  const measure = (): boolean => {
    let news = false;
    for (const child of shown.current!.children as Iterable<HTMLElement & Element>) {
      const row = rows.current[heights.index((child as HTMLElement).dataset.key!)];
      if (row && row.kind !== 'gap') news = heights.measure(row.key, child.getBoundingClientRect().height) || news;
    }
    return news;
  };

  useLayoutEffect(() => {
    measure();
    place();
    look();
  });

  useEffect(() => {
    let width = 0;
    const observer = new ResizeObserver(() => {
      // The last call may come after the end.
      if (!canvas.current) return;
      const now = canvas.current.clientWidth;
      if (width && now !== width) heights.forget();
      width = now;
      measure();
      place();
      look();
    });
    observer.observe(scroller.current!);
    observer.observe(shown.current!);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    stuck.current = true;
    place();
    look();
  }, [props.toEnd]);

  useLayoutEffect(() => {
    if (!props.target) return;
    const { depth } = props.target;
    const n = props.rows.findIndex((row) => (row.kind === 'gap' ? row.to >= depth : row.depth >= depth));
    const row = props.rows[n];
    if (!row) return;
    stuck.current = false;
    anchor.current = { key: row.key, delta: row.kind === 'gap' ? (depth - row.from) * GAP_TURN_PX : 0, depth };
    place();
    look();
  }, [props.target?.n]);

  return (
    <div class="scroller" ref={scroller} onScroll={scrolled} tabIndex={0} role="region" aria-label={props.label}>
      <div class="canvas" ref={canvas}>
        <div class="shown" ref={shown}>
          {props.rows.slice(first, last).map((row) => (
            <div class={`row row-${row.kind}${row.depth === props.target?.depth ? ' sought' : ''}`} key={row.key} data-key={row.key}>
              {props.draw(row)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
