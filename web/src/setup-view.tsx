// The setup page: which agents and models answer, adding one to `ctx.toml`, and settings.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { errorText } from './api';
import { LinkToList } from './icon';
import { ProviderForm } from './provider-form';
import { ProviderTest } from './provider-test';
import { fetchProviders } from './provider-store';
import { Chip } from './chip';
import { hrefTo } from './route';
import {
  draftOf,
  fetchSetup,
  joinCommand,
  removeProvider,
  writeProvider,
  writeSettings,
  type Changed,
  type ConfiguredProvider,
  type FoundProvider,
  type ProviderSetup,
  type Setup,
} from './setup-data';
import { SettingsForm } from './settings-form';

/** The parts of the page. The outcome of an action is shown in the part where it was started. */
type Place = 'configured' | 'found' | 'form' | 'settings';

interface Outcome {
  place: Place;
  /** Null if the action failed. */
  changed: Changed | null;
  error: string | null;
}

/** Runs an action and shows its outcome in `place`; true if it succeeded. */
type Act = (place: Place, change: () => Promise<Changed>) => Promise<boolean>;

export default function SetupView({ isSettings }: { isSettings: boolean }) {
  const [setup, setSetup] = useState<Setup | null>(null);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [isWriting, setWriting] = useState(false);
  const [, error, run] = useAction();
  const load = async () => setSetup(await fetchSetup());
  useEffect(() => run(load), []);
  const act: Act = async (place, change) => {
    setWriting(true);
    setOutcome(null);
    try {
      const changed = await change();
      await Promise.all([load(), fetchProviders()]);
      setOutcome({ place, changed, error: null });
      return true;
    } catch (reason) {
      setOutcome({ place, changed: null, error: errorText(reason) });
      return false;
    } finally {
      setWriting(false);
    }
  };
  return (
    <main class="page setup" aria-label="Setup">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>Setup</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="Providers and settings">
        <div class="column">
          <ErrorMessage text={error} />
          <p class="visually-hidden" role="status">
            {outcome?.changed ? `Written to ${outcome.changed.path}.` : ''}
          </p>
          {setup && (
            <State
              setup={setup}
              busy={isWriting}
              act={act}
              outcome={outcome}
              isSettings={isSettings}
            />
          )}
        </div>
      </div>
    </main>
  );
}

/** The outcome of the last action, if it was started in this part of the page. */
function OutcomeNotice({ outcome, place }: { outcome: Outcome | null; place: Place }) {
  const element = useRef<HTMLDivElement>(null);
  const isHere = outcome?.place === place;
  useEffect(() => {
    if (isHere) element.current?.scrollIntoView({ block: 'nearest' });
  }, [outcome]);
  if (!isHere) return null;
  return (
    <div ref={element} class="outcome">
      {outcome.changed && <WrittenNotice changed={outcome.changed} />}
      <ErrorMessage text={outcome.error} />
    </div>
  );
}

const WrittenNotice = ({ changed }: { changed: Changed }) => (
  <div class="card written">
    <p>
      Written to <code>{changed.path}</code>.{' '}
      {changed.restart ? (
        <strong>Restart ctx serve to apply it.</strong>
      ) : (
        <>
          It is in use now. <a href={hrefTo.newSession}>Start a session</a>
        </>
      )}
    </p>
    {changed.backup && (
      <p class="hint">
        The file before the change is <code>{changed.backup}</code>.
      </p>
    )}
  </div>
);

interface StateProps {
  setup: Setup;
  busy: boolean;
  act: Act;
  outcome: Outcome | null;
  /** Whether the settings are what the user looks for. */
  isSettings: boolean;
}

function State({ setup, busy, act, outcome, isSettings }: StateProps) {
  const { providers, found } = setup;
  const isNew = (one: FoundProvider) => !providers.some((provider) => provider.name === one.name);
  const makeDefault = (name: string) =>
    void act('configured', () => writeSettings({ 'defaults.provider': name }));
  const add = (one: FoundProvider) =>
    void act('found', () =>
      writeProvider(one.name, { ...draftOf(one), default: providers.length === 0 }),
    );
  return (
    <>
      <Summary setup={setup} />
      {providers.length > 0 && (
        <section aria-label="Configured providers">
          <h2>In ctx.toml</h2>
          <ul class="cards">
            {providers.map((provider) => (
              <ConfiguredCard
                key={provider.name}
                provider={provider}
                isDefault={provider.name === setup.default}
                busy={busy}
                makeDefault={() => makeDefault(provider.name)}
                remove={() => void act('configured', () => removeProvider(provider.name))}
              />
            ))}
          </ul>
        </section>
      )}
      <OutcomeNotice outcome={outcome} place="configured" />
      <section aria-label="Found on this machine">
        <h2>Found on this machine</h2>
        <p class="hint">
          {providers.length === 0
            ? 'ctx uses what it finds as long as ctx.toml has no providers. Add those that you want to keep: after the first one, only the file counts.'
            : 'ctx.toml has providers, so only those are used. Add what you need from this list.'}
        </p>
        <OutcomeNotice outcome={outcome} place="found" />
        {found.filter(isNew).length === 0 && (
          <p class="empty">
            {found.length > 0
              ? 'Everything that was found is in ctx.toml.'
              : 'Nothing was found: no API key variable, no known agent on PATH, no model server on a usual port of this machine.'}
          </p>
        )}
        <ul class="cards">
          {found.filter(isNew).map((one) => (
            <li key={one.name} class="card">
              <h3>
                {one.name} <span class="hint">{one.by}</span>
              </h3>
              <ProviderFacts provider={one} />
              <div class="buttons">
                <button type="button" class="small" disabled={busy} onClick={() => add(one)}>
                  Add to ctx.toml
                </button>
                <ProviderTest name={one.name} draft={draftOf(one)} />
              </div>
            </li>
          ))}
        </ul>
      </section>
      <ProviderForm
        isFirst={providers.length === 0}
        names={providers.map(({ name }) => name)}
        busy={busy}
        write={(name, draft) => void act('form', () => writeProvider(name, draft))}
        outcome={<OutcomeNotice outcome={outcome} place="form" />}
      />
      <SettingsForm
        setup={setup}
        busy={busy}
        isTarget={isSettings}
        write={(settings) => act('settings', () => writeSettings(settings))}
        outcome={<OutcomeNotice outcome={outcome} place="settings" />}
      />
    </>
  );
}

function Summary({ setup }: { setup: Setup }) {
  const isDemo = setup.default === 'demo';
  return (
    <div class={`card ${isDemo ? 'ask' : ''}`}>
      <p>
        {isDemo ? (
          <>
            <strong>No model is set up.</strong> The built-in demo agent answers with scripted text.
            Add a local model server, an API key or an agent below.
          </>
        ) : (
          <>
            New sessions use <strong>{setup.default}</strong>.
          </>
        )}
      </p>
      <p class="hint">
        Configuration: <code>{setup.file.path}</code>
        {!setup.file.exists && ' (it does not exist yet)'}
      </p>
    </div>
  );
}

function ProviderFacts({ provider }: { provider: ProviderSetup }) {
  const facts: [string, string][] = [
    ['Kind', provider.kind],
    ...(provider.base_url ? ([['Address', provider.base_url]] as [string, string][]) : []),
    ...(provider.model ? ([['Model', provider.model]] as [string, string][]) : []),
    ...(provider.command.length
      ? ([['Command', joinCommand(provider.command)]] as [string, string][])
      : []),
    ...(provider.api_key_env
      ? ([
          [
            'API key',
            `${provider.api_key_env} (${provider.key_is_set ? 'set' : 'not set in the environment of ctx serve'})`,
          ],
        ] as [string, string][])
      : []),
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface ConfiguredProps {
  provider: ConfiguredProvider;
  isDefault: boolean;
  busy: boolean;
  makeDefault: () => void;
  remove: () => void;
}

function ConfiguredCard({ provider, isDefault, busy, makeDefault, remove }: ConfiguredProps) {
  return (
    <li class="card">
      <h3>
        {provider.name}{' '}
        <Chip tone={provider.available ? 'good' : 'ask'}>
          {provider.available ? 'available' : 'not available'}
        </Chip>{' '}
        {isDefault && <Chip tone="live">default</Chip>}
      </h3>
      {provider.reason && <p class="hint">{provider.reason}</p>}
      <ProviderFacts provider={provider} />
      <div class="buttons">
        {!isDefault && (
          <button type="button" class="small" disabled={busy} onClick={makeDefault}>
            Use for new sessions
          </button>
        )}
        <button type="button" class="small danger" disabled={busy} onClick={remove}>
          Remove<span class="visually-hidden"> {provider.name}</span>
        </button>
        <ProviderTest name={provider.name} draft={null} />
      </div>
    </li>
  );
}
