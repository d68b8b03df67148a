// A small label for a state or a count.
import type { ComponentChildren } from 'preact';

/** Color: `live` in progress, `good` success, `bad` failure, `ask` needs attention, '' neutral. */
export type Tone = 'live' | 'good' | 'bad' | 'ask' | '';

export const Chip = ({ tone, children }: { tone?: Tone; children: ComponentChildren }) => (
  <span class={`chip ${tone ?? ''}`}>{children}</span>
);
