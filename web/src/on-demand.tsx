// Loads the views that few visits need when one of them is first shown.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';

type MoreViews = typeof import('./more-views');

/** Whether the palette of actions and sessions is open. */
export const isPaletteOpen = signal(false);
/** What was typed while the palette was being loaded. */
export const typedForPalette = signal('');

/** Null until loaded, `failed` after a failure. */
const loaded = signal<MoreViews | 'failed' | null>(null);

export function OnDemand({ show }: { show: (more: MoreViews) => ComponentChildren }) {
  useEffect(() => {
    if (loaded.value) return;
    import('./more-views').then(
      (views) => (loaded.value = views),
      () => (loaded.value = 'failed'),
    );
  }, []);
  if (loaded.value === 'failed') {
    // A browser does not fetch a module again after it failed. Another version of the server has
    // other files.
    return (
      <div class="placeholder" role="alert">
        <p>Cannot load this part of the page.</p>
        <button type="button" onClick={() => location.reload()}>
          Reload the page
        </button>
      </div>
    );
  }
  return <>{loaded.value && show(loaded.value)}</>;
}
