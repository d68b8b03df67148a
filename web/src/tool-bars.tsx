// Tools by the number of their calls, with the failed ones hatched.
import { ChartSection } from './chart-parts';
import type { UsageReport } from './usage-data';

const TOOLS_MAX = 20;

interface Props {
  report: UsageReport;
  selected: string | undefined;
  hrefOf: (tool: string) => string;
}

export function ToolBars({ report, selected, hrefOf }: Props) {
  const tools = report.usage.slice(0, TOOLS_MAX);
  const most = Math.max(1, ...tools.map((tool) => tool.tool_calls));
  return (
    <ChartSection
      title="Tools"
      about="Calls of tools of all models; the hatched part failed. Select a tool to see the sessions that called it."
      file="ctx-tools"
      // The bars have their numbers as text.
      tableTitle={report.usage.length > TOOLS_MAX ? `Show all ${report.usage.length}` : null}
      linkOf={(n) => hrefOf(report.usage[n]!.key ?? '')}
      heads={['Tool', 'Calls', 'Failed', 'Turns']}
      rows={report.usage.map((one) => [
        one.key,
        one.tool_calls,
        one.failed_tool_calls ?? 0,
        one.turns,
      ])}
    >
      {tools.length === 0 && <p class="empty">No tool was called in this period.</p>}
      <ul class="tool-bars">
        {tools.map((tool) => {
          const failed = tool.failed_tool_calls ?? 0;
          const percent = Math.round((failed / Math.max(1, tool.tool_calls)) * 100);
          const name = tool.key ?? 'unknown';
          return (
            <li key={name} class={selected !== undefined && selected !== name ? 'dimmed' : ''}>
              <a href={hrefOf(name)} aria-current={selected === name ? 'true' : undefined}>
                {name}
              </a>
              <svg height="14" width="100%" aria-hidden="true" focusable="false">
                <rect class="calls" height="14" width={`${(tool.tool_calls / most) * 100}%`} />
                <rect
                  class="failed"
                  height="14"
                  width={`${(failed / most) * 100}%`}
                  fill="url(#tool-failed)"
                />
                <defs>
                  <pattern id="tool-failed" width="5" height="5" patternUnits="userSpaceOnUse">
                    <rect width="5" height="5" class="failed-ground" />
                    <path d="M0 5 5 0M-1 1 1-1M4 6 6 4" class="failed-mark" />
                  </pattern>
                </defs>
              </svg>
              <span class="hint">
                {tool.tool_calls.toLocaleString()} {tool.tool_calls === 1 ? 'call' : 'calls'}
                {failed > 0 && `, ${failed.toLocaleString()} failed (${percent} %)`}
              </span>
            </li>
          );
        })}
      </ul>
    </ChartSection>
  );
}
