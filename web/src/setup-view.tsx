// The setup page: which agents and models answer, adding one to `ctx.toml`, and settings.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
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

export default function SetupView() {
  const [setup, setSetup] = useState<Setup | null>(null);
  const [changed, setChanged] = useState<Changed | null>(null);
  const [busy, error, run] = useAction();
  const load = async () => setSetup(await fetchSetup());
  useEffect(() => run(load), []);
  /** Shows what was written, and the new state. */
  const after = (change: () => Promise<Changed>) =>
    run(async () => {
      setChanged(await change());
      await Promise.all([load(), fetchProviders()]);
    });
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
            {changed ? `Written to ${changed.path}.` : ''}
          </p>
          {changed && <WrittenNotice changed={changed} />}
          {setup && <State setup={setup} busy={busy} after={after} />}
        </div>
      </div>
    </main>
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
  after: (change: () => Promise<Changed>) => void;
}

function State({ setup, busy, after }: StateProps) {
  const { providers, found } = setup;
  const isNew = (one: FoundProvider) => !providers.some((provider) => provider.name === one.name);
  const makeDefault = (name: string) => after(() => writeSettings({ 'defaults.provider': name }));
  const add = (one: FoundProvider) =>
    after(() => writeProvider(one.name, { ...draftOf(one), default: providers.length === 0 }));
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
                remove={() => after(() => removeProvider(provider.name))}
              />
            ))}
          </ul>
        </section>
      )}
      <section aria-label="Found on this machine">
        <h2>Found on this machine</h2>
        <p class="hint">
          {providers.length === 0
            ? 'ctx uses what it finds as long as ctx.toml has no providers. Add those that you want to keep: after the first one, only the file counts.'
            : 'ctx.toml has providers, so only those are used. Add what you need from this list.'}
        </p>
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
        write={(name, draft) => after(() => writeProvider(name, draft))}
      />
      <SettingsForm
        setup={setup}
        busy={busy}
        write={(settings) => after(() => writeSettings(settings))}
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
