// What this browser remembers: the theme, and a draft for each session.
import { effect, signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
const THEMES: Theme[] = ['auto', 'light', 'dark'];
/** How many drafts are kept. */
const DRAFTS_MAX = 100;
const DRAFT = 'ctx.draft.';

const stored = localStorage.getItem('ctx.theme') as Theme | null;
export const theme = signal<Theme>(stored && THEMES.includes(stored) ? stored : 'auto');
effect(() => {
  localStorage.setItem('ctx.theme', theme.value);
  if (theme.value === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
export const nextTheme = () => (theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!);

/** Whether the panel beside the conversation is open. */
export const panel = signal<'task' | 'tree' | null>((localStorage.getItem('ctx.panel') as 'task' | 'tree' | null) || null);
effect(() => localStorage.setItem('ctx.panel', panel.value ?? ''));

export const draftOf = (session: string) => localStorage.getItem(DRAFT + session) ?? '';

export function keepDraft(session: string, text: string): void {
  localStorage.removeItem(DRAFT + session);
  if (!text) return;
  const drafts = Object.keys(localStorage).filter((key) => key.startsWith(DRAFT));
  for (const key of drafts.slice(0, Math.max(0, drafts.length + 1 - DRAFTS_MAX))) localStorage.removeItem(key);
  try {
    localStorage.setItem(DRAFT + session, text);
  } catch {
    // The browser has no room: the text is still in the field.
  }
}
