// Loads a view as a file of its own when it is first shown.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** `load` imports the module whose default export is the view. */
export function lazyView<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  return function LazyView(props: Props) {
    const [state, setState] = useState<'loading' | 'loaded' | 'failed'>(
      loaded ? 'loaded' : 'loading',
    );
    useEffect(() => {
      if (loaded) return;
      load().then(
        (module) => {
          loaded = module.default;
          setState('loaded');
        },
        () => setState('failed'),
      );
    }, []);
    if (state === 'failed') return <LoadFailed />;
    const View = loaded;
    return View ? <View {...props} /> : <main class="page" aria-busy="true" />;
  };
}

/** A browser does not fetch a module again after it failed. Another version of the server has other
 * files. */
const LoadFailed = () => (
  <main class="placeholder">
    <p role="alert">Cannot load this part of the page.</p>
    <button type="button" onClick={() => location.reload()}>
      Reload the page
    </button>
  </main>
);
