// Global keyboard shortcuts. They are listed for the user in help-dialog.tsx.
import { openAdjacentBranch } from './branch-navigation';
import { requestComposerFocus } from './composer';
import { isHelpOpen } from './help-dialog';
import { isPaletteOpen, typedForPalette } from './on-demand';
import { togglePanel } from './preferences';
import { hrefTo, navigate, route } from './route';
import { toggleArchived } from './session-actions';
import { setSearchText } from './session-list-store';
import { currentStore, stopRun } from './session-view';
import { focusSearch, openAdjacentSession } from './sidebar';
import { showError, showToast, undoNewest } from './toast';
import { jumpToMessage } from './transcript';

const HANDLERS: Record<string, () => void> = {
  j: () => openAdjacentSession(1),
  k: () => openAdjacentSession(-1),
  J: () => jumpToMessage?.(1),
  K: () => jumpToMessage?.(-1),
  '[': () => void openAdjacentBranch(-1).catch(showError),
  ']': () => void openAdjacentBranch(1).catch(showError),
  '/': focusSearch,
  n: openNewSession,
  e: archiveCurrent,
  z: undoNewest,
  r: requestComposerFocus,
  t: () => togglePanel('task'),
  b: () => togglePanel('branches'),
  i: () => togglePanel('details'),
  p: () => navigate(hrefTo.people),
  d: () => navigate(hrefTo.deliveries),
  '?': () => (isHelpOpen.value = true),
};

/** Shows the form for a new session, without the search that led elsewhere. */
export function openNewSession(): void {
  setSearchText('');
  if (route.value.view !== 'new') navigate(hrefTo.newSession);
  requestComposerFocus();
}

function archiveCurrent(): void {
  const session = currentStore.value?.session.value;
  if (session?.state === 'running') {
    // A letter that was meant for the message must not stop the agent.
    showToast({ text: 'The agent is working. Stop it with Esc before you archive the session.' });
  } else if (session) void toggleArchived(session).catch(showError);
}

/** Escape stops the current run, except in a field that is not the message field. */
function onEscape(target: HTMLElement): void {
  const store = currentStore.value;
  const isRunning = store?.session.value?.state === 'running';
  const isOtherField = target.matches('input, select, textarea') && !target.closest('.composer');
  if (store && isRunning && !isOtherField) void stopRun(store).catch(showError);
  else if (target.matches('input, textarea, select')) target.blur();
}

export function installKeyboardShortcuts(): void {
  addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (event.defaultPrevented || event.isComposing) return;
    if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey) {
      event.preventDefault();
      typedForPalette.value = '';
      isPaletteOpen.value = !isPaletteOpen.value;
      return;
    }
    if (target.closest('dialog[open]')) return;
    if (isPaletteOpen.value) {
      if (event.key.length === 1) typedForPalette.value += event.key;
      else if (event.key === 'Escape') isPaletteOpen.value = false;
      return event.preventDefault();
    }
    if (event.key === 'Escape') return onEscape(target);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest('input, textarea, select')) return;
    const handler = HANDLERS[event.key];
    if (!handler) return;
    event.preventDefault();
    handler();
  });
}
