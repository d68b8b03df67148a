// Tokens, cost and duration of a turn as text.
import type { Turn, Usage } from './api-types';

/** Values that the provider did not report are left out. */
export function turnUsage(turn: Turn): string {
  const usage: Partial<Usage> = turn.usage ?? {};
  const tokens = (count: number | null | undefined, unit: string) =>
    count == null ? null : `${count.toLocaleString()} ${unit}`;
  const seconds = (Date.parse(turn.ended_at) - Date.parse(turn.started_at)) / 1000;
  const parts = [
    tokens(usage.input_tokens, 'in'),
    tokens(usage.cached_tokens || null, 'cached'),
    tokens(usage.output_tokens, 'out'),
    usage.cost ?? null,
    seconds >= 1 ? formatDuration(seconds) : null,
  ];
  return parts.filter((part) => part !== null).join(' · ');
}

const formatDuration = (seconds: number) =>
  seconds < 90 ? `${seconds.toFixed(0)} s` : `${Math.round(seconds / 60)} min`;
