// The activity of a year: a cell per day. The size of a cell's mark shows the level, so that it can
// be read without color.
import { useEffect, useRef } from 'preact/hooks';
import { ChartSection, moveFocus } from './chart-parts';
import {
  daysBetween,
  firstDay,
  formatDay,
  formatSum,
  today,
  type UsageEntry,
  type UsageReport,
} from './usage-data';

/** 53 weeks. */
export const HEATMAP_SINCE = '370d';
const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const LEVELS = 4;

interface Props {
  report: UsageReport;
  selected: string | undefined;
  hrefOf: (day: string) => string;
}

export function ActivityHeatmap({ report, selected, hrefOf }: Props) {
  const byDay = new Map(report.usage.map((entry) => [entry.key, entry]));
  const most = Math.max(1, ...report.usage.map((entry) => entry.turns));
  const weeks = weeksOf(daysBetween(firstDay(HEATMAP_SINCE), today()));
  const scroller = useRef<HTMLDivElement>(null);
  // The newest week is at the end.
  useEffect(() => {
    if (scroller.current) scroller.current.scrollLeft = scroller.current.scrollWidth;
  }, []);
  const last = today();
  return (
    <ChartSection
      title="Activity"
      about="Turns per day in the last year, in UTC. The larger the square, the more turns. Select a day to see its sessions."
      file="ctx-activity"
      linkOf={(n) => hrefOf(report.usage[n]!.key ?? '')}
      heads={['Day', 'Turns', 'Tool calls', 'Cost in USD']}
      rows={report.usage.map((one) => [one.key, one.turns, one.tool_calls, one.cost])}
    >
      <div class="heatmap-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Days">
        <table class="heatmap" onKeyDown={moveFocus}>
          <caption class="visually-hidden">Turns per day</caption>
          <thead>
            <tr>
              <td />
              {weeks.map((week, n) => (
                <td key={n} class="month">
                  <span>{monthOf(week, weeks[n - 1])}</span>
                </td>
              ))}
            </tr>
          </thead>
          <tbody>
            {WEEKDAYS.map((weekday, y) => (
              <tr key={weekday}>
                <th scope="row">
                  <span class={y % 2 ? 'visually-hidden' : ''}>{weekday}</span>
                </th>
                {weeks.map((week, x) => {
                  const day = week[y];
                  if (!day) return <td key={x} />;
                  const entry = byDay.get(day);
                  const level = entry ? Math.ceil((entry.turns / most) * LEVELS) : 0;
                  return (
                    <td key={x}>
                      <a
                        class={`day level-${level}`}
                        href={hrefOf(day)}
                        data-x={x}
                        data-y={y}
                        tabIndex={day === last ? 0 : -1}
                        aria-current={day === selected ? 'true' : undefined}
                        aria-label={describe(day, entry)}
                        title={describe(day, entry)}
                      />
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint heatmap-legend" aria-hidden="true">
        None
        {Array.from({ length: LEVELS + 1 }, (_, level) => (
          <span key={level} class={`day level-${level}`} />
        ))}
        {most} turns
      </p>
    </ChartSection>
  );
}

function describe(day: string, entry: UsageEntry | undefined): string {
  if (!entry) return `${formatDay(day)}: no turns`;
  const cost = entry.cost === null ? '' : `, ${formatSum(entry, 'cost')}`;
  return `${formatDay(day)}: ${entry.turns} ${entry.turns === 1 ? 'turn' : 'turns'}${cost}`;
}

/** Weeks of seven places that begin on Monday. */
function weeksOf(days: string[]): (string | undefined)[][] {
  const weeks: (string | undefined)[][] = [];
  for (const day of days) {
    const weekday = (new Date(day).getUTCDay() + 6) % 7;
    if (weekday === 0 || weeks.length === 0) weeks.push([]);
    weeks.at(-1)![weekday] = day;
  }
  return weeks;
}

/** The name of a month above the week in which it begins. */
function monthOf(week: (string | undefined)[], before: (string | undefined)[] | undefined): string {
  const month = (days: (string | undefined)[] | undefined) => days?.findLast(Boolean)?.slice(0, 7);
  const own = month(week);
  if (!own || own === month(before) || !before) return '';
  return new Date(`${own}-01`).toLocaleDateString(undefined, { month: 'short', timeZone: 'UTC' });
}
