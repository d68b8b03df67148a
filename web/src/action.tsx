// User actions that call the server: busy state, and the error shown beside the control.
import { useState } from 'preact/hooks';
import { errorText } from './api';

export const ErrorMessage = ({ text }: { text: string | null }) =>
  text ? (
    <p class="error-message" role="alert">
      {text}
    </p>
  ) : null;

type Run = (action: () => Promise<unknown>) => void;

/** `busy` while an action runs; `error` is that of the last action; `run` starts one. */
export function useAction(): [busy: boolean, error: string | null, run: Run] {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const run: Run = (action) => {
    setBusy(true);
    setError(null);
    action()
      .catch((reason) => setError(errorText(reason)))
      .finally(() => setBusy(false));
  };
  return [busy, error, run];
}
