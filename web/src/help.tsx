// The keys, and what the page is.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

export const help = signal(false);

const KEYS: [string, string][] = [
  ['j  k', 'next and previous session'],
  ['/', 'find sessions and what was said'],
  ['n', 'new session'],
  ['e', 'archive the session, or take it out again'],
  ['r', 'write a message'],
  ['t  b', 'the task, the branches'],
  ['Enter', 'send; Shift+Enter for a new line'],
  ['Esc', 'leave the field, close this'],
  ['?', 'this list'],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (help.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [help.value]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (help.value = false)}>
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              {key.split('  ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        The API is described at <a href="/api/openapi.json">/api/openapi.json</a>.
      </p>
      <button type="button" autofocus onClick={() => (help.value = false)}>
        Close
      </button>
    </dialog>
  );
}
