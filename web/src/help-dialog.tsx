// The help dialog: the list of keyboard shortcuts.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

export const isHelpOpen = signal(false);

/** The handlers are in keyboard-shortcuts.ts. */
const SHORTCUTS: [keys: string[], description: string][] = [
  [['Ctrl K'], 'Open a session or run an action'],
  [['j', 'k'], 'Next and previous session'],
  [['J', 'K'], 'Next and previous message of yours'],
  [['[', ']'], 'Previous and next branch'],
  [['/'], 'Find in sessions and messages'],
  [['n'], 'New session'],
  [['r'], 'Write a message'],
  [['Enter'], 'Send; Shift+Enter for a new line'],
  [['Esc'], 'Stop the agent; leave a field; close a dialog'],
  [['e'], 'Archive or unarchive the session'],
  [['z'], 'Undo the last action, such as a rewind'],
  [['F2'], 'Rename the session that has the focus in the list'],
  [['t', 'b', 'i'], 'Task, branches and details panel'],
  [['p', 'd'], 'People, deliveries'],
  [['?'], 'Show this help'],
];

export function HelpDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isHelpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isHelpOpen.value]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (isHelpOpen.value = false)}>
      <h2 id="help-title">Keyboard shortcuts</h2>
      <dl class="shortcuts">
        {SHORTCUTS.map(([keys, description]) => (
          <div key={description}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{description}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        API reference: <a href="/api/openapi.json">/api/openapi.json</a>
      </p>
      <button type="button" autofocus onClick={() => (isHelpOpen.value = false)}>
        Close
      </button>
    </dialog>
  );
}
