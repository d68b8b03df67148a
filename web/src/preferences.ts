// State kept in the local storage of this browser: theme, open panel, drafts.
import { effect, signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
const THEMES: Theme[] = ['auto', 'light', 'dark'];
/** The oldest draft is deleted when there are more. */
const DRAFTS_MAX = 100;
const DRAFT_PREFIX = 'ctx.draft.';

const storedTheme = localStorage.getItem('ctx.theme') as Theme | null;
export const theme = signal<Theme>(
  storedTheme && THEMES.includes(storedTheme) ? storedTheme : 'auto',
);
effect(() => {
  localStorage.setItem('ctx.theme', theme.value);
  if (theme.value === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
export const nextTheme = () =>
  (theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!);

/** Whether the list of sessions is a view of its own. The style sheet has the same width. */
const narrowQuery = matchMedia('(max-width: 44rem)');
export const isNarrow = signal(narrowQuery.matches);
narrowQuery.addEventListener('change', () => (isNarrow.value = narrowQuery.matches));

export type Panel = 'task' | 'branches' | 'details';
const PANELS: Panel[] = ['task', 'branches', 'details'];

/** The panel that is open beside the transcript. */
const storedPanel = localStorage.getItem('ctx.panel') as Panel | null;
export const panel = signal<Panel | null>(
  storedPanel && PANELS.includes(storedPanel) ? storedPanel : null,
);
effect(() => localStorage.setItem('ctx.panel', panel.value ?? ''));
export const togglePanel = (which: Panel) => (panel.value = panel.value === which ? null : which);

/** `name` is the id of a session, or `new`. */
export const loadDraft = (name: string) => localStorage.getItem(DRAFT_PREFIX + name) ?? '';

export function saveDraft(name: string, text: string): void {
  localStorage.removeItem(DRAFT_PREFIX + name);
  if (!text) return;
  const drafts = Object.keys(localStorage).filter((key) => key.startsWith(DRAFT_PREFIX));
  for (const key of drafts.slice(0, Math.max(0, drafts.length + 1 - DRAFTS_MAX)))
    localStorage.removeItem(key);
  try {
    localStorage.setItem(DRAFT_PREFIX + name, text);
  } catch {
    // The storage is full. The text is still in the field.
  }
}
