// Settings: those of this browser, and those of the server in `ctx.toml`.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { theme, type Theme } from './preferences';
import type { Setup } from './setup-data';

interface Setting {
  name: string;
  label: string;
  hint: string;
  choices?: string[];
}

const SETTINGS: Setting[] = [
  {
    name: 'defaults.on_new_task',
    label: 'When a message starts a new task while one is open',
    hint: 'ask: ctx asks first. auto: the open task is closed and kept as a commit.',
    choices: ['ask', 'auto'],
  },
  {
    name: 'clocks.process_idle',
    label: 'End an idle agent process after',
    hint: 'A duration such as 5m.',
  },
  {
    name: 'clocks.task_ask',
    label: 'Ask before a task is continued after',
    hint: 'A duration such as 24h.',
  },
  { name: 'clocks.task_seal', label: 'Seal an idle task after', hint: 'A duration such as 7d.' },
  {
    name: 'clocks.session_archive',
    label: 'Archive an idle session after',
    hint: 'A duration such as 30d.',
  },
];

const THEMES: [Theme, string][] = [
  ['auto', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

interface Props {
  setup: Setup;
  busy: boolean;
  /** Resolves to true if the settings were written. */
  write: (settings: Record<string, string>) => Promise<boolean>;
  /** The outcome of the last attempt. */
  outcome: ComponentChildren;
  /** Whether the page was opened for the settings. */
  isTarget: boolean;
}

export function SettingsForm({ setup, busy, write, outcome, isTarget }: Props) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!isTarget) return;
    section.current?.scrollIntoView({ block: 'start' });
    section.current?.querySelector('select')?.focus({ preventScroll: true });
  }, [isTarget]);
  const [edited, setEdited] = useState<Record<string, string>>({});
  const value = (name: string) => edited[name] ?? setup.settings[name] ?? '';
  const changes = Object.entries(edited).filter(
    ([name, text]) => text.trim() !== '' && text !== setup.settings[name],
  );
  const edit = (name: string) => (event: { currentTarget: { value: string } }) =>
    setEdited({ ...edited, [name]: event.currentTarget.value });
  return (
    <section aria-label="Settings" ref={section}>
      <h2>Settings</h2>
      <div class="settings">
        <label>
          Theme of this browser
          <select
            value={theme.value}
            onChange={(event) => (theme.value = event.currentTarget.value as Theme)}
          >
            {THEMES.map(([name, text]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      <form
        class="settings"
        onSubmit={(event) => {
          event.preventDefault();
          void write(Object.fromEntries(changes)).then((done) => done && setEdited({}));
        }}
      >
        {SETTINGS.map(({ name, label, hint, choices }) => (
          <label key={name}>
            {label}
            {choices ? (
              <select value={value(name)} onChange={edit(name)}>
                {choices.map((choice) => (
                  <option key={choice}>{choice}</option>
                ))}
              </select>
            ) : (
              <input value={value(name)} onInput={edit(name)} spellcheck={false} />
            )}
            <span class="hint">
              {hint} <code>{name}</code>
            </span>
          </label>
        ))}
        <p class="hint">These take effect when ctx serve is started again.</p>
        <div class="buttons">
          <button type="submit" disabled={busy || changes.length === 0}>
            Save settings
          </button>
        </div>
        {outcome}
      </form>
    </section>
  );
}
