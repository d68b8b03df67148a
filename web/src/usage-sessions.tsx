// The sessions of the usage page: the dearest and the longest ones, or all of a filter.
import { useEffect, useRef } from 'preact/hooks';
import { ChartSection } from './chart-parts';
import { hrefTo } from './route';
import * as data from './usage-data';
import type { Measure, UsageEntry, UsageReport, UsageState } from './usage-data';

const TOP = 5;
const FILTERED_MAX = 50;

interface Props {
  state: UsageState;
  measure: Measure;
  dearest: UsageReport;
  longest: UsageReport;
}

export function UsageSessions({ state, measure, dearest, longest }: Props) {
  const isFiltered = data.FILTERS.some((name) => state[name] !== undefined);
  const ref = useRef<HTMLDivElement>(null);
  // The user selected a mark further down: show what it leads to.
  const filter = data.FILTERS.map((name) => state[name]).join('\n');
  useEffect(() => {
    if (isFiltered) ref.current?.scrollIntoView({ block: 'nearest' });
  }, [filter]);
  if (isFiltered) {
    return (
      <div ref={ref}>
        <Section
          title={`Sessions: ${describe(state)}`}
          file="ctx-sessions"
          report={dearest}
          limit={FILTERED_MAX}
          columns={state.tool === undefined ? ['cost', 'tokens', 'time', 'turns'] : 'tools'}
        />
      </div>
    );
  }
  const hasCost = dearest.total.cost !== null;
  return (
    <div class="session-tables">
      <Section
        title={hasCost ? 'Dearest sessions' : 'Sessions with most tokens'}
        file="ctx-dearest-sessions"
        report={dearest}
        limit={TOP}
        columns={[hasCost ? (measure === 'tokens' ? 'tokens' : 'cost') : 'tokens', 'turns']}
      />
      <Section
        title="Longest sessions"
        file="ctx-longest-sessions"
        report={longest}
        limit={TOP}
        columns={['time', 'turns']}
      />
    </div>
  );
}

function describe(state: UsageState): string {
  const parts = data.FILTERS.filter((name) => state[name] !== undefined).map((name) =>
    name === 'day' ? data.formatDay(state.day!) : state[name] || `no ${name}`,
  );
  return parts.join(', ');
}

interface SectionProps {
  title: string;
  file: string;
  report: UsageReport;
  limit: number;
  columns: Measure[] | 'tools';
}

function Section({ title, file, report, limit, columns }: SectionProps) {
  const rows = report.usage.slice(0, limit);
  const heads =
    columns === 'tools' ? ['Calls', 'Failed'] : columns.map((name) => data.MEASURES[name]);
  const cells = (entry: UsageEntry) =>
    columns === 'tools'
      ? [String(entry.tool_calls), String(entry.failed_tool_calls ?? 0)]
      : columns.map((name) => data.formatSum(entry, name));
  return (
    <ChartSection
      title={title}
      file={file}
      linkOf={(n) => (report.usage[n]!.key ? hrefTo.session(report.usage[n]!.key!) : null)}
      heads={['Session', 'Label', 'Cost in USD', 'Tokens', 'Turns', 'Tool calls', 'Time in ms']}
      rows={report.usage.map((one) => [
        one.key,
        one.title ?? one.label ?? '',
        one.cost,
        data.valueOf(one, 'tokens'),
        one.turns,
        one.tool_calls,
        one.duration_ms,
      ])}
    >
      {rows.length === 0 ? (
        <p class="empty">No sessions.</p>
      ) : (
        <table class="usage-sessions">
          <thead>
            <tr>
              <th scope="col">Session</th>
              {heads.map((head) => (
                <th key={head} scope="col" class="number">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((entry, n) => (
              <tr key={entry.key ?? n}>
                <td>
                  {entry.key ? (
                    <a href={hrefTo.session(entry.key)}>{entry.title ?? entry.label}</a>
                  ) : (
                    'deleted sessions'
                  )}
                </td>
                {cells(entry).map((cell, column) => (
                  <td key={column} class="number">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {report.usage.length > limit && (
        <p class="hint">
          {(report.usage.length - limit + report.more).toLocaleString()} more in the table and the
          CSV.
        </p>
      )}
    </ChartSection>
  );
}
