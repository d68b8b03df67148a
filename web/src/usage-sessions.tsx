// The sessions of the usage page: the dearest and the longest ones, or all of a filter.
import { useEffect, useRef } from 'preact/hooks';
import { get, sessionPath } from './api';
import type { Session } from './api-types';
import { ChartSection } from './chart-parts';
import { hrefTo } from './route';
import { sessionsById, storeSessions } from './session-list-store';
import { distinctNames, sessionName } from './session-names';
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

/** Sessions whose names are fetched, because another row has the same title. */
const NAMES_MAX = 20;

/** The names of the rows, no two the same. */
function useNames(report: UsageReport): string[] {
  const titles = report.usage.map((entry) => entry.title ?? entry.label ?? 'deleted sessions');
  const unknown = report.usage
    .filter(
      (entry, n) => entry.key && titles.indexOf(titles[n]!) !== titles.lastIndexOf(titles[n]!),
    )
    .flatMap(({ key }) => (key && !sessionsById.value.has(key) ? [key] : []))
    .slice(0, NAMES_MAX);
  useEffect(() => void fetchSessionsOf(unknown), [unknown.join()]);
  return distinctNames(
    report.usage.map(({ key }, n) => {
      const session = sessionsById.value.get(key ?? '');
      return { key, name: session ? sessionName(session) : titles[n]! };
    }),
  );
}

async function fetchSessionsOf(ids: string[]): Promise<void> {
  const found = await Promise.all(ids.map((id) => get<Session>(sessionPath(id)).catch(() => null)));
  if (ids.length) storeSessions(found.filter((one) => one !== null));
}

function Section({ title, file, report, limit, columns }: SectionProps) {
  const rows = report.usage.slice(0, limit);
  const names = useNames(report);
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
      tableTitle={report.usage.length > limit ? `Show all ${report.usage.length}` : null}
      linkOf={(n) => (report.usage[n]!.key ? hrefTo.session(report.usage[n]!.key!) : null)}
      heads={['Session', 'Name', 'Cost in USD', 'Tokens', 'Turns', 'Tool calls', 'Time in ms']}
      rows={report.usage.map((one, n) => [
        one.key,
        names[n]!,
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
                    <a href={hrefTo.session(entry.key)}>{names[n]}</a>
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
      {report.more > 0 && <p class="hint">{report.more.toLocaleString()} more are not listed.</p>}
    </ChartSection>
  );
}
