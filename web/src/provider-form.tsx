// The form that adds a provider: a local model server, an API with a key, or an agent.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ProviderTest } from './provider-test';
import { fetchModels, splitCommand, type ProviderDraft } from './setup-data';

type Choice = 'local' | 'api' | 'agent';

const CHOICES: [choice: Choice, text: string, about: string][] = [
  ['local', 'Local model server', 'Ollama, llama.cpp, LM Studio, vLLM or another server'],
  ['api', 'API key', 'OpenAI, Anthropic or a compatible service'],
  ['agent', 'Agent', 'A program that speaks the Agent Client Protocol'],
];

/** The hint that says what is missing. */
const MISSING_ID = 'provider-missing';
/** Where Ollama listens. */
const LOCAL_URL = 'http://127.0.0.1:11434/v1';
/** Pause after the last key before the models are fetched. */
const TYPING_MS = 400;

const VARIABLES: Record<string, string> = {
  openai: 'OPENAI_API_KEY',
  anthropic: 'ANTHROPIC_API_KEY',
};

interface Props {
  /** Whether it is the first provider of the file. */
  isFirst: boolean;
  /** Names that are in use. */
  names: string[];
  busy: boolean;
  write: (name: string, draft: ProviderDraft) => void;
  /** The outcome of the last attempt. */
  outcome: ComponentChildren;
}

export function ProviderForm({ isFirst, names, busy, write, outcome }: Props) {
  const [choice, setChoice] = useState<Choice>('local');
  const [fields, setFields] = useState<Record<string, string>>({});
  const [isDefault, setDefault] = useState(isFirst);
  const field = (name: string, fallback = '') => fields[`${choice}.${name}`] ?? fallback;
  const set = (name: string) => (event: { currentTarget: { value: string } }) =>
    setFields({ ...fields, [`${choice}.${name}`]: event.currentTarget.value });
  const models = useModels(choice === 'local' ? field('base_url', LOCAL_URL) : '');
  const kind = choice === 'api' ? field('kind', 'openai') : choice === 'agent' ? 'acp' : 'openai';
  const name = field('name', { local: 'local', api: kind, agent: 'agent' }[choice]).trim();
  // A server with one model leaves nothing to choose.
  const onlyModel = models.length === 1 ? models[0] : '';
  const draft = draftFrom(choice, kind, (key, fallback) =>
    field(key, key === 'model' ? onlyModel : fallback),
  );
  const missing = missingField(choice, draft) ?? (name === '' ? 'Enter a name.' : null);
  return (
    <section aria-label="Add a provider">
      <h2>Add a provider</h2>
      <form
        class="settings"
        onSubmit={(event) => {
          event.preventDefault();
          if (!missing) write(name, { ...draft, default: isDefault });
        }}
      >
        <fieldset class="choices">
          <legend class="visually-hidden">Kind of provider</legend>
          {CHOICES.map(([value, text, about]) => (
            <label key={value} class="card choice">
              <input
                type="radio"
                name="provider-kind"
                checked={choice === value}
                onChange={() => setChoice(value)}
              />
              <span>
                {text}
                <span class="hint">{about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        {choice === 'local' && (
          <>
            <Field
              label="Address"
              value={field('base_url', LOCAL_URL)}
              onInput={set('base_url')}
              hint="The base URL of the OpenAI-compatible API; it usually ends in /v1."
            />
            <Field
              label="Model"
              value={field('model', onlyModel)}
              onInput={set('model')}
              required
              choices={models}
              hint={
                models.length
                  ? `The server has ${models.slice(0, 5).join(', ')}.`
                  : 'Models are offered here when the server answers.'
              }
            />
            <Field
              label="Context window in tokens"
              value={field('context_window')}
              onInput={set('context_window')}
              type="number"
              hint="As the server was started; 128,000 if empty."
            />
          </>
        )}
        {choice === 'api' && (
          <>
            <label>
              Service
              <select value={kind} onChange={set('kind')}>
                <option value="openai">OpenAI or compatible</option>
                <option value="anthropic">Anthropic</option>
              </select>
            </label>
            <Field
              label="Name of the environment variable with the key"
              value={field('api_key_env', VARIABLES[kind])}
              onInput={set('api_key_env')}
              required
              hint="Only the name is stored, never the key. Set the variable where ctx serve is started."
            />
            <Field label="Model" value={field('model')} onInput={set('model')} />
            <Field
              label="Address, if it is another service"
              value={field('base_url')}
              onInput={set('base_url')}
            />
          </>
        )}
        {choice === 'agent' && (
          <Field
            label="Command"
            value={field('command')}
            onInput={set('command')}
            required
            hint="The program and its arguments, such as opencode acp. It runs with your rights."
          />
        )}
        <Field
          label="Name"
          value={field('name', name)}
          onInput={set('name')}
          hint={
            names.includes(name)
              ? `${name} is in ctx.toml; its values are replaced.`
              : 'Sessions refer to the provider by this name.'
          }
        />
        <label class="check">
          <input
            type="checkbox"
            checked={isDefault}
            onChange={(event) => setDefault(event.currentTarget.checked)}
          />{' '}
          Use it for new sessions
        </label>
        <div class="buttons">
          <button
            type="submit"
            class="primary"
            disabled={busy || missing !== null}
            aria-describedby={missing ? MISSING_ID : undefined}
          >
            Write to ctx.toml
          </button>
          <ProviderTest
            key={JSON.stringify(draft)}
            name={name}
            draft={draft}
            describedBy={missing ? MISSING_ID : undefined}
          />
          {missing && (
            <span id={MISSING_ID} class="hint">
              {missing}
            </span>
          )}
        </div>
        {outcome}
      </form>
    </section>
  );
}

/** The models of the server at an address; none while it is typed or does not respond. */
function useModels(baseUrl: string): string[] {
  const [models, setModels] = useState<string[]>([]);
  useEffect(() => {
    setModels([]);
    if (!baseUrl) return;
    let isCurrent = true;
    const timer = setTimeout(
      () =>
        void fetchModels(baseUrl).then(
          (found) => isCurrent && setModels(found),
          () => undefined,
        ),
      TYPING_MS,
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [baseUrl]);
  return models;
}

function draftFrom(
  choice: Choice,
  kind: string,
  field: (name: string, fallback?: string) => string,
): ProviderDraft {
  const text = (name: string, fallback = '') => {
    const value = field(name, fallback).trim();
    return value ? { [name]: value } : {};
  };
  const window = Number(field('context_window'));
  switch (choice) {
    case 'local':
      return {
        kind,
        ...text('base_url', LOCAL_URL),
        ...text('model'),
        ...(window > 0 && { context_window: Math.round(window) }),
      };
    case 'api':
      return {
        kind,
        ...text('api_key_env', VARIABLES[kind]),
        ...text('model'),
        ...text('base_url'),
      };
    case 'agent':
      return { kind, command: splitCommand(field('command')) };
  }
}

/** What the user has to enter before the provider can be tested; null if nothing is missing. */
function missingField(choice: Choice, draft: ProviderDraft): string | null {
  switch (choice) {
    case 'local':
      if (!draft.base_url) return 'Enter the address of the server.';
      return draft.model ? null : 'Enter a model to test and write it.';
    case 'api':
      return draft.api_key_env ? null : 'Enter the name of the variable with the key.';
    case 'agent':
      return draft.command?.length ? null : 'Enter the command of the agent.';
  }
}

interface FieldProps {
  label: string;
  value: string | undefined;
  onInput: (event: { currentTarget: { value: string } }) => void;
  hint?: string;
  type?: 'number';
  required?: boolean;
  /** Values to choose from. */
  choices?: string[];
}

function Field({ label, value, onInput, hint, type, required, choices }: FieldProps) {
  const id = label.replaceAll(' ', '-');
  const listId = choices?.length ? `choices-${id}` : undefined;
  const hintId = hint ? `hint-${id}` : undefined;
  const common = {
    value,
    onInput,
    required,
    spellcheck: false,
    autoComplete: 'off',
    'aria-describedby': hintId,
  } as const;
  return (
    <>
      <label>
        {label}
        {type === 'number' ? (
          <input type="number" min={1} {...common} />
        ) : (
          <input {...common} list={listId} />
        )}
      </label>
      {listId && (
        <datalist id={listId}>
          {choices?.map((choice) => (
            <option key={choice} value={choice} />
          ))}
        </datalist>
      )}
      {hint && (
        <p id={hintId} class="hint">
          {hint}
        </p>
      )}
    </>
  );
}
