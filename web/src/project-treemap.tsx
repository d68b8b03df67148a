// Projects as a treemap: the area of a rectangle is the share of a project.
import { ChartSection, moveFocus, useWidth } from './chart-parts';
import { treemap } from './treemap-layout';
import { formatSum, MEASURES, valueOf, type Measure, type UsageReport } from './usage-data';

const HEIGHT_MAX = 260;
const GAP = 2;
const PROJECTS_MAX = 40;
const CHAR_PX = 7.2;

interface Props {
  report: UsageReport;
  measure: Measure;
  selected: string | undefined;
  hrefOf: (project: string) => string;
}

export function ProjectTreemap({ report, measure, selected, hrefOf }: Props) {
  const [ref, width] = useWidth(700);
  const entries = report.usage
    .filter((entry) => (valueOf(entry, measure) ?? 0) > 0)
    .sort((a, b) => valueOf(b, measure)! - valueOf(a, measure)!)
    .slice(0, PROJECTS_MAX);
  const height = Math.min(HEIGHT_MAX, 60 + 50 * entries.length);
  const values = entries.map((entry) => valueOf(entry, measure)!);
  const rects = treemap(values, { x: 0, y: 0, width, height });
  return (
    <ChartSection
      title={`${MEASURES[measure]} by project`}
      about="Select a project to see its sessions."
      file={`ctx-${measure}-by-project`}
      linkOf={(n) => (report.usage[n]!.key === null ? null : hrefOf(report.usage[n]!.key!))}
      heads={['Project', 'Cost in USD', 'Tokens', 'Turns', 'Time in ms']}
      rows={report.usage.map((one) => [
        one.key,
        one.cost,
        valueOf(one, 'tokens'),
        one.turns,
        one.duration_ms,
      ])}
    >
      <div ref={ref}>
        {entries.length === 0 ? (
          <p class="empty">Nothing is known in this period.</p>
        ) : (
          <svg
            class="treemap"
            width={width}
            height={height}
            role="group"
            aria-label={`${MEASURES[measure]} by project`}
            onKeyDown={moveFocus}
          >
            {entries.map((entry, n) => {
              const rect = rects[n]!;
              const value = formatSum(entry, measure);
              const name = entry.key ?? 'deleted sessions';
              const chars = Math.floor((rect.width - 16) / CHAR_PX);
              const shape = (
                <>
                  <title>{`${name}: ${value}`}</title>
                  <rect
                    x={rect.x + GAP / 2}
                    y={rect.y + GAP / 2}
                    width={Math.max(1, rect.width - GAP)}
                    height={Math.max(1, rect.height - GAP)}
                    rx="4"
                  />
                  {chars >= 4 && rect.height >= 24 && (
                    <text x={rect.x + 9} y={rect.y + 20}>
                      {clip(name, chars)}
                    </text>
                  )}
                  {chars >= 5 && rect.height >= 44 && (
                    <text class="value" x={rect.x + 9} y={rect.y + 38}>
                      {clip(value, chars)}
                    </text>
                  )}
                </>
              );
              const marks = {
                'data-x': Math.round(rect.x + rect.width / 2),
                'data-y': Math.round(rect.y + rect.height / 2),
              };
              return entry.key === null ? (
                <g key={n}>{shape}</g>
              ) : (
                <a
                  key={n}
                  href={hrefOf(entry.key)}
                  tabIndex={n === 0 ? 0 : -1}
                  aria-label={`${name}: ${value}`}
                  aria-current={selected === entry.key ? 'true' : undefined}
                  class={selected !== undefined && selected !== entry.key ? 'dimmed' : ''}
                  {...marks}
                >
                  {shape}
                </a>
              );
            })}
          </svg>
        )}
      </div>
    </ChartSection>
  );
}

const clip = (text: string, chars: number) =>
  text.length > chars ? `${text.slice(0, Math.max(1, chars - 1))}…` : text;
