// The usage page: what turns used, over time, by model, project, tool and session. Each mark is a
// link that limits the page to its sessions.
import { useEffect, useState } from 'preact/hooks';
import { ActivityHeatmap, HEATMAP_SINCE } from './activity-heatmap';
import { ErrorMessage } from './action';
import { errorText } from './api';
import { DayBars } from './day-bars';
import { Icon, LinkToList } from './icon';
import { ProjectTreemap } from './project-treemap';
import { hrefTo, navigate } from './route';
import { plural } from './session-display';
import { ToolBars } from './tool-bars';
import * as data from './usage-data';
import type { FilterName, Measure, UsageReport, UsageState } from './usage-data';
import { UsageSessions } from './usage-sessions';

const RANGES: [since: string, text: string][] = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['365d', 'Year'],
];

/** The reports of a state. The charts show this state until the next reports are loaded. */
interface Reports {
  state: UsageState;
  year: UsageReport;
  days: UsageReport;
  projects: UsageReport;
  tools: UsageReport;
  dearest: UsageReport;
  longest: UsageReport;
  total: UsageReport;
}

export default function UsageView({ query }: { query: string }) {
  const state = data.parseState(query);
  const [reports, setReports] = useState<Reports | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    setError(null);
    fetchAll(state).then(
      (found) => isCurrent && setReports(found),
      (reason) => isCurrent && setError(errorText(reason)),
    );
    return () => {
      isCurrent = false;
    };
  }, [query]);
  return (
    <main class="page usage" aria-label="Usage">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>Usage</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="Usage reports">
        <div class="column">
          <Range state={state} />
          <ActiveFilters state={state} />
          <ErrorMessage text={error} />
          {reports && <Charts reports={reports} chosen={state.measure} />}
        </div>
      </div>
    </main>
  );
}

async function fetchAll(state: UsageState): Promise<Reports> {
  // Calls of tools have no model and no cost, so these charts show all tools.
  const noTool: FilterName[] = ['tool'];
  const heat: UsageState = { since: HEATMAP_SINCE };
  const sessions: FilterName[] = state.tool === undefined ? [] : ['model'];
  const [year, days, projects, tools, dearest, longest, total] = await Promise.all([
    data.fetchReport({ ...heat, model: state.model, project: state.project }, 'day', noTool),
    data.fetchReport(state, 'day,model', ['tool', 'day', 'model']),
    data.fetchReport(state, 'project', ['tool', 'project']),
    data.fetchReport(state, 'tool', ['tool', 'model'], { sort: 'tool_calls' }),
    data.fetchReport(state, 'session', sessions, state.tool ? { sort: 'tool_calls' } : {}),
    data.fetchReport(state, 'session', ['tool'], { sort: 'duration' }),
    data.fetchReport(state, 'provider', noTool),
  ]);
  return { state, year, days, projects, tools, dearest, longest, total };
}

const hrefWith = (state: UsageState, change: Partial<UsageState>) =>
  hrefTo.usage(data.formatState({ ...state, ...change }));

function Charts({ reports, chosen }: { reports: Reports; chosen: Measure | undefined }) {
  const state: UsageState = { ...reports.state, measure: chosen };
  const total = reports.total.total;
  const measure: Measure =
    chosen ??
    (total.cost !== null ? 'cost' : data.valueOf(total, 'tokens') !== null ? 'tokens' : 'turns');
  if (reports.year.total.turns === 0 && total.turns === 0 && !hasFilter(state)) {
    return (
      <p class="empty">
        No usage yet. <a href={hrefTo.newSession}>Start a session</a>, and its tokens and cost are
        counted here.
      </p>
    );
  }
  return (
    <>
      <Totals total={total} />
      <fieldset class="measures">
        <legend>Charts show</legend>
        {Object.entries(data.MEASURES).map(([name, text]) => (
          <label key={name} class="check">
            <input
              type="radio"
              name="measure"
              checked={measure === name}
              onChange={() => navigate(hrefWith(state, { measure: name as Measure }))}
            />
            {text}
          </label>
        ))}
      </fieldset>
      <UsageSessions
        state={state}
        measure={measure}
        dearest={reports.dearest}
        longest={reports.longest}
      />
      <ActivityHeatmap
        report={reports.year}
        selected={state.day}
        hrefOf={(day) => hrefWith(state, { day })}
      />
      <DayBars
        report={reports.days}
        measure={measure}
        first={data.firstDay(state.since)}
        last={state.until ?? data.today()}
        selected={{ day: state.day, model: state.model }}
        hrefOf={(day, model) =>
          hrefWith(state, {
            day: day ?? undefined,
            model: model ?? undefined,
            tool: undefined,
          })
        }
      />
      <ProjectTreemap
        report={reports.projects}
        measure={measure}
        selected={state.project}
        hrefOf={(project) => hrefWith(state, { project })}
      />
      <ToolBars
        report={reports.tools}
        selected={state.tool}
        hrefOf={(tool) => hrefWith(state, { tool, model: undefined })}
      />
    </>
  );
}

const hasFilter = (state: UsageState) => data.FILTERS.some((name) => state[name] !== undefined);

function Range({ state }: { state: UsageState }) {
  const setDay = (name: 'since' | 'until') => (event: { currentTarget: HTMLInputElement }) => {
    const { value } = event.currentTarget;
    const change = name === 'since' ? { since: value || '30d' } : { until: value || undefined };
    navigate(hrefWith(state, { ...change, day: undefined }));
  };
  return (
    <div class="range" role="group" aria-label="Time range">
      <ul class="views">
        {RANGES.map(([since, text]) => (
          <li key={since}>
            <a
              class="toggle"
              href={hrefWith(state, { since, until: undefined, day: undefined })}
              aria-current={state.since === since && !state.until ? 'true' : undefined}
            >
              {text}
            </a>
          </li>
        ))}
      </ul>
      <label>
        From
        <input
          type="date"
          value={data.firstDay(state.since)}
          max={state.until ?? data.today()}
          onChange={setDay('since')}
        />
      </label>
      <label>
        To
        <input
          type="date"
          value={state.until ?? data.today()}
          min={data.firstDay(state.since)}
          onChange={setDay('until')}
        />
      </label>
    </div>
  );
}

const FILTER_NAMES: Record<FilterName, string> = {
  day: 'Day',
  model: 'Model',
  project: 'Project',
  tool: 'Tool',
};

function ActiveFilters({ state }: { state: UsageState }) {
  const active = data.FILTERS.filter((name) => state[name] !== undefined);
  if (active.length === 0) return null;
  const text = (name: FilterName) =>
    name === 'day' ? data.formatDay(state.day!) : state[name] || `no ${name}`;
  const nothing = { day: undefined, model: undefined, project: undefined, tool: undefined };
  return (
    <ul class="views filters-on" aria-label="Filters">
      {active.map((name) => (
        <li key={name}>
          <a class="toggle" href={hrefWith(state, { [name]: undefined })} aria-current="true">
            {FILTER_NAMES[name]}: {text(name)} <Icon name="close" />
            <span class="visually-hidden">remove this filter</span>
          </a>
        </li>
      ))}
      {active.length > 1 && (
        <li>
          <a class="toggle" href={hrefWith(state, nothing)}>
            Remove all
          </a>
        </li>
      )}
    </ul>
  );
}

function Totals({ total }: { total: data.UsageSum }) {
  const tokens = data.valueOf(total, 'tokens');
  const values: [name: string, value: string, more: string][] = [
    [
      'Cost',
      data.formatSum(total, 'cost'),
      total.unpriced_turns ? `${plural(total.unpriced_turns, 'turn')} without a known cost` : '',
    ],
    [
      'Tokens',
      data.formatValue(tokens, 'tokens'),
      total.cached_tokens ? `${data.formatCount(total.cached_tokens)} of the input cached` : '',
    ],
    ['Turns', data.formatCount(total.turns), total.messages ? `${total.messages} messages` : ''],
    ['Tool calls', data.formatCount(total.tool_calls), ''],
    ['Time', data.formatTime(total.duration_ms ?? 0), 'of the turns'],
  ];
  return (
    <dl class="totals">
      {values.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value}
            {more && <span class="hint">{more}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
