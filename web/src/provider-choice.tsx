// The provider and the model of the next message.
import { useEffect, useState } from 'preact/hooks';
import { get } from './api';
import type { Session } from './api-types';
import { providers } from './provider-store';

/** The value of the last entry of the list, which opens a field for another name. */
const OTHER = '\0other';
/** Models beyond this number are not listed; their names can be typed. */
const MODELS_MAX = 300;

interface Props {
  session: Session | null;
  /** Empty for the default of the session. */
  provider: string;
  setProvider(id: string): void;
  model: string;
  setModel(model: string): void;
}

/** Selects the provider and the model for this message only. */
export function ProviderChoice({ session, provider, setProvider, model, setModel }: Props) {
  const { all, defaultId } = providers.value;
  const sessionDefault = session?.provider_id ?? defaultId ?? 'no provider';
  const chosen = all.find((one) => one.id === (provider || sessionDefault));
  const defaultModel = (provider ? null : session?.model) ?? chosen?.model ?? null;
  return (
    <>
      <select
        class="quiet"
        aria-label="Provider"
        value={provider}
        onChange={(event) => {
          setProvider(event.currentTarget.value);
          setModel('');
        }}
      >
        <option value="">{sessionDefault}</option>
        {all
          .filter((one) => one.id !== sessionDefault)
          .map((one) => (
            <option key={one.id} value={one.id} disabled={!one.available}>
              {one.id}
              {one.available ? '' : ` (${one.reason ?? 'not available'})`}
            </option>
          ))}
      </select>
      {chosen && chosen.kind !== 'demo' && (
        <ModelChoice
          key={chosen.id}
          provider={chosen.id}
          known={chosen.models ?? []}
          defaultModel={defaultModel}
          model={model}
          setModel={setModel}
        />
      )}
    </>
  );
}

interface ModelProps {
  provider: string;
  known: string[];
  defaultModel: string | null;
  model: string;
  setModel(model: string): void;
}

/** The provider's own list of models. A name that is not in it can be typed. */
function ModelChoice({ provider, known, defaultModel, model, setModel }: ModelProps) {
  const [listed, setListed] = useState<string[]>([]);
  const [isTyped, setTyped] = useState(false);
  useEffect(() => {
    get<{ models: string[] }>(`/providers/${encodeURIComponent(provider)}/models`).then(
      ({ models }) => setListed(models.slice(0, MODELS_MAX)),
      () => undefined,
    );
  }, [provider]);
  const models = [...new Set([...known, ...listed])].filter((name) => name !== defaultModel);
  if (isTyped) {
    return (
      <input
        class="quiet"
        aria-label="Model"
        size={14}
        value={model}
        placeholder={defaultModel ?? 'model'}
        ref={(field) => {
          if (!model) field?.focus();
        }}
        onInput={(event) => setModel(event.currentTarget.value)}
        onBlur={(event) => event.currentTarget.value || setTyped(false)}
      />
    );
  }
  return (
    <select
      class="quiet"
      aria-label="Model"
      value={model}
      onChange={(event) => {
        const { value } = event.currentTarget;
        if (value === OTHER) setTyped(true);
        else setModel(value);
      }}
    >
      <option value="">{defaultModel ?? 'default model'}</option>
      {models.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
      <option value={OTHER}>Another model…</option>
    </select>
  );
}
