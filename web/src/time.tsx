// Times as text: relative ("5 min") in lists, clock times in transcripts.
import { signal } from '@preact/signals';

/** The current time, updated every 30 s so that relative times stay correct. */
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 30_000);

function formatAge(at: string, from: number): string {
  const seconds = Math.max(0, (from - Date.parse(at)) / 1000);
  if (seconds < 60) return 'now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 604_800) return `${Math.floor(seconds / 86_400)} d`;
  return new Date(at).toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
}

/** With `ago`, "5 min" becomes "5 min ago". */
export function RelativeTime({ at, ago }: { at: string; ago?: boolean }) {
  const age = formatAge(at, now.value);
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {ago && /^\d+ (min|h|d)$/.test(age) ? `${age} ago` : age}
    </time>
  );
}

/** Hours and minutes, with the date in front if it is not today. */
export function ClockTime({ at }: { at: string }) {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date(now.value).toDateString();
  const time = date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
  const day = date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
  return (
    <time dateTime={at} title={date.toLocaleString()}>
      {isToday ? time : `${day}, ${time}`}
    </time>
  );
}
