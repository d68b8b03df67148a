// Bars per day, or per week in a long period, stacked by model.
import { ChartSection, FillPatterns, FILLS, moveFocus, Swatch, useWidth } from './chart-parts';
import {
  daysBetween,
  formatDay,
  formatValue,
  MEASURES,
  valueOf,
  type Measure,
  type UsageReport,
} from './usage-data';

const HEIGHT = 220;
const LEFT = 52;
const BOTTOM = 24;
const TOP = 8;
/** A longer period is drawn by week. */
const DAYS_MAX = 95;
const NAME = 'bars';
const OTHER = 'other models';
const NO_MODEL = 'no model';

interface Props {
  report: UsageReport;
  measure: Measure;
  first: string;
  last: string;
  selected: { day?: string; model?: string };
  hrefOf: (day: string | null, model: string | null) => string;
}

interface Bar {
  /** The first day. */
  day: string;
  days: number;
  /** By index of the model. */
  parts: number[];
}

export function DayBars({ report, measure, first, last, selected, hrefOf }: Props) {
  const [ref, width] = useWidth(700);
  const models = rankedModels(report, measure);
  const bars = barsOf(report, measure, models, daysBetween(first, last));
  const totals = bars.map((bar) => bar.parts.reduce((sum, part) => sum + part, 0));
  const most = Math.max(...totals, Number.MIN_VALUE);
  const slot = (width - LEFT) / Math.max(1, bars.length);
  const scale = (HEIGHT - TOP - BOTTOM) / most;
  const isWeekly = bars.some((bar) => bar.days > 1);
  const isEmpty = totals.every((total) => total === 0);
  return (
    <ChartSection
      title={`${MEASURES[measure]} per ${isWeekly ? 'week' : 'day'} by model`}
      about="Select a part of a bar to see its sessions."
      file={`ctx-${measure}-by-day-and-model`}
      linkOf={(n) => hrefOf(report.usage[n]!.key, report.usage[n]!.second_key ?? '')}
      heads={['Day', 'Model', 'Cost in USD', 'Tokens', 'Turns', 'Time in ms']}
      rows={report.usage.map((one) => [
        one.key,
        one.second_key ?? '',
        one.cost,
        valueOf(one, 'tokens'),
        one.turns,
        one.duration_ms,
      ])}
    >
      <div ref={ref}>
        {isEmpty ? (
          <p class="empty">Nothing is known in this period.</p>
        ) : (
          <svg
            width={width}
            height={HEIGHT}
            role="group"
            aria-label={`${MEASURES[measure]} by model`}
            onKeyDown={moveFocus}
          >
            <FillPatterns name={NAME} />
            {[0, 0.5, 1].map((share) => (
              <g key={share} aria-hidden="true">
                <path class="grid-line" d={`M${LEFT} ${yOf(share * most, scale)}H${width}`} />
                <text class="axis" x={LEFT - 6} y={yOf(share * most, scale) + 4} text-anchor="end">
                  {formatValue(share * most, measure)}
                </text>
              </g>
            ))}
            {bars.map((bar, x) => {
              let below = 0;
              const at = LEFT + x * slot;
              return bar.parts.map((part, index) => {
                if (part === 0) return null;
                const y = yOf(below + part, scale);
                below += part;
                const model = models[index]!;
                const period = isWeekly ? `week of ${formatDay(bar.day)}` : formatDay(bar.day);
                const label = `${period}, ${model}: ${formatValue(part, measure)}`;
                const isFirst = x === bars.findIndex((one) => one.parts.some(Boolean));
                return (
                  <a
                    key={`${x}/${index}`}
                    href={hrefOf(
                      isWeekly ? null : bar.day,
                      model === OTHER ? null : modelKey(model),
                    )}
                    data-x={x}
                    data-y={-index}
                    tabIndex={isFirst && index === bar.parts.findIndex(Boolean) ? 0 : -1}
                    aria-label={label}
                    class={
                      (selected.day && selected.day !== bar.day) ||
                      (selected.model !== undefined && selected.model !== modelKey(model))
                        ? 'dimmed'
                        : ''
                    }
                  >
                    <title>{label}</title>
                    <rect
                      x={at + slot * 0.1}
                      y={y}
                      width={Math.max(1, slot * 0.8)}
                      height={Math.max(1, part * scale)}
                      fill={`url(#${NAME}-fill-${index % FILLS})`}
                    />
                  </a>
                );
              });
            })}
            {labelled(bars, slot).map((x) => (
              <text
                key={x}
                class="axis"
                aria-hidden="true"
                x={LEFT + (x + 0.5) * slot}
                y={HEIGHT - 6}
                text-anchor={x === 0 ? 'start' : 'middle'}
              >
                {shortDay(bars[x]!.day)}
              </text>
            ))}
          </svg>
        )}
      </div>
      <ul class="legend" aria-label="Models">
        {models.map((model, index) => (
          <li key={model}>
            <Swatch name={NAME} fill={index % FILLS} />
            {model === OTHER ? (
              model
            ) : (
              <a
                href={hrefOf(selected.day ?? null, modelKey(model))}
                aria-current={selected.model === modelKey(model) ? 'true' : undefined}
              >
                {model}
              </a>
            )}
          </li>
        ))}
      </ul>
    </ChartSection>
  );
}

const yOf = (value: number, scale: number) => HEIGHT - BOTTOM - value * scale;
const modelKey = (model: string) => (model === NO_MODEL ? '' : model);

/** The models with the highest sums; the rest is one entry. */
function rankedModels(report: UsageReport, measure: Measure): string[] {
  const sums = new Map<string, number>();
  for (const entry of report.usage) {
    const name = entry.second_key || NO_MODEL;
    sums.set(name, (sums.get(name) ?? 0) + (valueOf(entry, measure) ?? 0));
  }
  const ranked = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return ranked.length <= FILLS ? ranked : [...ranked.slice(0, FILLS - 1), OTHER];
}

function barsOf(report: UsageReport, measure: Measure, models: string[], days: string[]): Bar[] {
  const size = days.length > DAYS_MAX ? 7 : 1;
  const bars: Bar[] = [];
  const barOfDay = new Map<string, Bar>();
  days.forEach((day, n) => {
    if (n % size === 0) bars.push({ day, days: 0, parts: models.map(() => 0) });
    const bar = bars.at(-1)!;
    bar.days++;
    barOfDay.set(day, bar);
  });
  for (const entry of report.usage) {
    const bar = barOfDay.get(entry.key ?? '');
    const index = models.indexOf(entry.second_key || NO_MODEL);
    const place = index < 0 ? models.indexOf(OTHER) : index;
    if (bar && place >= 0) bar.parts[place]! += valueOf(entry, measure) ?? 0;
  }
  return bars;
}

/** The bars with a label, so that labels do not overlap. */
function labelled(bars: Bar[], slot: number): number[] {
  const every = Math.max(1, Math.ceil(64 / slot));
  return bars
    .map((_, x) => x)
    .filter((x) => x % every === 0 && (x + 0.5) * slot < bars.length * slot - 20);
}

function shortDay(day: string): string {
  const options = { day: 'numeric', month: 'short', timeZone: 'UTC' } as const;
  return new Date(day).toLocaleDateString(undefined, options);
}
