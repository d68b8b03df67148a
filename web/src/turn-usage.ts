// Tokens, cost and duration of a turn as text.
import type { Turn, Usage } from './api-types';

/** Values that the provider did not report are left out. */
export function turnUsage(turn: Turn): string {
  const usage: Partial<Usage> = turn.usage ?? {};
  const tokens = (count: number | null | undefined, unit: string) =>
    count == null ? null : `${count.toLocaleString()} ${unit}`;
  const parts = [
    tokens(usage.input_tokens, 'in'),
    tokens(usage.cached_tokens || null, 'cached'),
    tokens(usage.output_tokens, 'out'),
    usage.cost ?? null,
    Date.parse(turn.ended_at) - Date.parse(turn.started_at) >= 1000
      ? formatDuration(turn.started_at, turn.ended_at)
      : null,
  ];
  return parts.filter((part) => part !== null).join(' · ');
}

/** At least "1 s". */
export function formatDuration(from: string, to: string): string {
  const seconds = Math.max(1, (Date.parse(to) - Date.parse(from)) / 1000);
  return seconds < 90 ? `${seconds.toFixed(0)} s` : `${Math.round(seconds / 60)} min`;
}
