// The data of the usage page: its query, requests, formatting and CSV.
import { get } from './api';

/** A sum over turns. A value that no turn reported is null. */
export interface UsageSum {
  turns: number;
  messages: number | null;
  tool_calls: number;
  failed_tool_calls?: number;
  duration_ms: number | null;
  input_tokens: number | null;
  cached_tokens: number | null;
  output_tokens: number | null;
  cost: number | null;
  unpriced_turns: number;
}

export interface UsageEntry extends UsageSum {
  key: string | null;
  second_key?: string | null;
  label?: string;
  title?: string;
}

export interface UsageReport {
  usage: UsageEntry[];
  more: number;
  total: UsageSum;
}

/** What the charts show. */
export type Measure = 'cost' | 'tokens' | 'turns' | 'time';
export const MEASURES: Record<Measure, string> = {
  cost: 'Cost',
  tokens: 'Tokens',
  turns: 'Turns',
  time: 'Time',
};

/** What can be filtered by. */
export type FilterName = 'day' | 'model' | 'project' | 'tool';
export const FILTERS: FilterName[] = ['day', 'model', 'project', 'tool'];

/** The state of the page, which is kept in the URL. */
export interface UsageState extends Partial<Record<FilterName, string>> {
  /** A duration before now such as `30d`, or a day. */
  since: string;
  /** The last day; the current one if none. */
  until?: string;
  measure?: Measure;
}

const DEFAULT_SINCE = '30d';

export function parseState(query: string): UsageState {
  const params = new URLSearchParams(query);
  const state: UsageState = { since: params.get('since') || DEFAULT_SINCE };
  for (const name of [...FILTERS, 'until'] as const) {
    const value = params.get(name);
    if (value !== null) state[name] = value;
  }
  const measure = params.get('measure');
  if (measure && measure in MEASURES) state.measure = measure as Measure;
  return state;
}

export function formatState(state: UsageState): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(state))
    if (value !== undefined && !(name === 'since' && value === DEFAULT_SINCE))
      params.set(name, value);
  return params.toString();
}

/** A report with the filters of the page, without those in `without`. */
export function fetchReport(
  state: UsageState,
  by: string,
  without: FilterName[] = [],
  more: Record<string, string> = {},
): Promise<UsageReport> {
  const params = new URLSearchParams({ by, since: state.since });
  if (state.until) params.set('until', state.until);
  if (state.day && !without.includes('day')) {
    params.set('since', state.day);
    params.set('until', state.day);
  }
  for (const name of ['model', 'project', 'tool'] as const) {
    const value = state[name];
    if (value !== undefined && !without.includes(name)) params.set(name, value);
  }
  for (const [name, value] of Object.entries(more)) params.set(name, value);
  return get<UsageReport>(`/usage?${params}`);
}

/** Null if no turn reported it. */
export function valueOf(sum: UsageSum, measure: Measure): number | null {
  switch (measure) {
    case 'cost':
      return sum.cost;
    case 'turns':
      return sum.turns;
    case 'time':
      return sum.duration_ms;
    case 'tokens':
      return sum.input_tokens === null && sum.output_tokens === null
        ? null
        : (sum.input_tokens ?? 0) + (sum.output_tokens ?? 0);
  }
}

/** Three digits and a unit: 950, 12.3k, 4.56M. */
export function formatCount(count: number): string {
  const units: [number, string][] = [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ];
  for (const [size, unit] of units)
    if (count >= size * 0.9995) return `${(count / size).toPrecision(3)}${unit}`;
  return String(Math.round(count));
}

export function formatCost(cost: number): string {
  return `$${cost.toFixed(cost > 0 && cost < 0.1 ? 4 : 2)}`;
}

export function formatTime(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function formatValue(value: number | null, measure: Measure): string {
  if (value === null) return 'unknown';
  if (measure === 'cost') return formatCost(value);
  return measure === 'time' ? formatTime(value) : formatCount(value);
}

/** The value of a sum. A cost that is known in part is a lower bound. */
export function formatSum(sum: UsageSum, measure: Measure): string {
  const text = formatValue(valueOf(sum, measure), measure);
  return measure === 'cost' && sum.cost !== null && sum.unpriced_turns > 0 ? `≥ ${text}` : text;
}

const DAY_MS = 86_400_000;

/** The days of a period in UTC, as `YYYY-MM-DD`. */
export function daysBetween(first: string, last: string): string[] {
  const days = [];
  for (let at = Date.parse(first); at <= Date.parse(last); at += DAY_MS)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

export const today = () => new Date().toISOString().slice(0, 10);

/** The first day of `since`, which is a day or a number of days. */
export function firstDay(since: string): string {
  const days = /^(\d+)d$/.exec(since);
  if (!days) return since;
  return new Date(Date.now() - Number(days[1]) * DAY_MS).toISOString().slice(0, 10);
}

export function formatDay(day: string): string {
  const options = { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' } as const;
  const date = new Date(day);
  return Number.isNaN(date.getTime()) ? day : date.toLocaleDateString(undefined, options);
}

/** A cell of CSV. A text that a spreadsheet would run as a formula is quoted. */
function csvCell(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  const text = value ?? '';
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export type Cells = (string | number | null)[][];

export const toCsv = (heads: string[], rows: Cells) =>
  [heads, ...rows].map((row) => row.map(csvCell).join(',')).join('\r\n') + '\r\n';

export function download(name: string, type: string, content: string | Blob): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
