// Global keyboard shortcuts. They are listed for the user in help-dialog.tsx.
import { requestComposerFocus } from './composer';
import { isHelpOpen } from './help-dialog';
import { togglePanel } from './preferences';
import { hrefTo, navigate } from './route';
import { toggleArchived } from './session-header';
import { currentStore } from './session-view';
import { focusSearch, openAdjacentSession } from './sidebar';

const HANDLERS: Record<string, () => void> = {
  j: () => openAdjacentSession(1),
  k: () => openAdjacentSession(-1),
  '/': focusSearch,
  n: () => navigate(hrefTo.newSession),
  e: () => currentStore.value && void toggleArchived(currentStore.value).catch(() => undefined),
  r: requestComposerFocus,
  t: () => togglePanel('task'),
  b: () => togglePanel('branches'),
  i: () => togglePanel('details'),
  p: () => navigate(hrefTo.people),
  d: () => navigate(hrefTo.deliveries),
  '?': () => (isHelpOpen.value = true),
};

export function installKeyboardShortcuts(): void {
  addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (event.key === 'Escape' && target.matches('input, textarea, select')) return target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest('input, textarea, select, dialog[open]')) return;
    const handler = HANDLERS[event.key];
    if (!handler) return;
    event.preventDefault();
    handler();
  });
}
