// Parts that the charts share: width, focus by arrow keys, fills that differ without color, and the
// table beside a chart.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { download, toCsv, type Cells } from './usage-data';

/** The width of an element in pixels, which a drawing in pixels follows. */
export function useWidth(initial: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(200, element.clientWidth)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width] as const;
}

const ARROWS: Record<string, [x: number, y: number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Moves the focus between the marks of a chart, which have `data-x` and `data-y`. Only one mark is
 * in the tab order. */
export function moveFocus(event: KeyboardEvent): void {
  const step = ARROWS[event.key];
  const current = (event.target as Element).closest('[data-x]');
  if (!step || !current) return;
  event.preventDefault();
  const place = (mark: Element) => [
    Number(mark.getAttribute('data-x')),
    Number(mark.getAttribute('data-y')),
  ];
  const [x, y] = place(current) as [number, number];
  let best: Element | null = null;
  let bestDistance = Infinity;
  for (const mark of (event.currentTarget as Element).querySelectorAll('[data-x]')) {
    const [otherX, otherY] = place(mark) as [number, number];
    const ahead = (otherX - x) * step[0] + (otherY - y) * step[1];
    const aside = Math.abs((otherX - x) * step[1]) + Math.abs((otherY - y) * step[0]);
    if (ahead <= 0) continue;
    const distance = ahead + aside * 100;
    if (distance < bestDistance) [best, bestDistance] = [mark, distance];
  }
  if (!best) return;
  current.setAttribute('tabindex', '-1');
  best.setAttribute('tabindex', '0');
  (best as HTMLElement).focus();
}

/** Number of fills that can be told apart. */
export const FILLS = 6;

/** Definitions of the fills: a color and a pattern each. */
export function FillPatterns({ name }: { name: string }) {
  const shapes = [
    '',
    'M0 6 6 0M-1 1 1-1M5 7 7 5',
    'M3 0V6',
    'M0 3H6',
    'M0 0 6 6M-1 5 1 7M5-1 7 1M0 6 6 0',
    'M3 3h.01',
  ];
  return (
    <defs>
      {shapes.map((shape, n) => (
        <pattern
          key={n}
          id={`${name}-fill-${n}`}
          width="6"
          height="6"
          patternUnits="userSpaceOnUse"
        >
          <rect width="6" height="6" class={`fill-${n}`} />
          <path d={shape} class="fill-mark" />
        </pattern>
      ))}
    </defs>
  );
}

export const Swatch = ({ name, fill }: { name: string; fill: number }) => (
  <svg class="swatch" width="14" height="14" aria-hidden="true" focusable="false">
    <rect width="14" height="14" fill={`url(#${name}-fill-${fill})`} />
  </svg>
);

interface SectionProps {
  title: string;
  /** One sentence below the title. */
  about?: ComponentChildren;
  /** File name of the CSV, without its ending. */
  file: string;
  heads: string[];
  rows: Cells;
  /** The link of the first cell of a row; none if null. */
  linkOf?: (row: number) => string | null;
  /** The summary of the table; without a table if null, because what is shown has the same values. */
  tableTitle?: string | null;
  children: ComponentChildren;
}

/** A chart with its data as a table and as CSV. */
export function ChartSection(props: SectionProps) {
  const { title, about, file, heads, rows, linkOf, children } = props;
  const { tableTitle = 'Show as a table' } = props;
  return (
    <section class="chart" aria-label={title}>
      <header class="chart-head">
        <h2>{title}</h2>
        <button
          type="button"
          class="small"
          disabled={rows.length === 0}
          aria-label={`Download ${title} as CSV`}
          onClick={() => download(`${file}.csv`, 'text/csv', toCsv(heads, rows))}
        >
          CSV
        </button>
      </header>
      {about && <p class="hint">{about}</p>}
      {children}
      {rows.length > 0 && tableTitle && (
        <details class="chart-table">
          <summary>
            {tableTitle}
            <span class="visually-hidden">: {title}</span>
          </summary>
          <DataTable label={title} heads={heads} rows={rows} linkOf={linkOf} />
        </details>
      )}
    </section>
  );
}

/** Rows that are drawn; the CSV has all. */
const TABLE_ROWS_MAX = 400;

interface TableProps extends Pick<SectionProps, 'heads' | 'rows' | 'linkOf'> {
  label: string;
}

function DataTable({ label, heads, rows, linkOf }: TableProps) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={`Table: ${label}`}>
      <table>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, TABLE_ROWS_MAX).map((row, n) => (
            <tr key={n}>
              {row.map((cell, column) => (
                <td key={column} class={typeof cell === 'number' ? 'number' : ''}>
                  {column === 0 && linkOf?.(n) ? (
                    <a href={linkOf(n)!}>{cell}</a>
                  ) : (
                    (cell ?? 'unknown')
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > TABLE_ROWS_MAX && (
        <p class="hint">{rows.length - TABLE_ROWS_MAX} more rows are in the CSV.</p>
      )}
    </div>
  );
}
