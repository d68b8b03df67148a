// The login form. A server that is reachable over the network requires a token.
import { useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { ApiError, errorText, get, needsToken, setToken } from './api';
import { BrandMark } from './icon';

const INVALID_TOKEN = 'Invalid token.';

export function Login({ onSuccess }: { onSuccess(): void }) {
  const [token, setInput] = useState('');
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const logIn = async () => {
    // A header can contain only printable ASCII, so no other text can be a token.
    if (!/^[!-~]+$/.test(token.trim())) return setError(INVALID_TOKEN);
    setBusy(true);
    setToken(token.trim());
    try {
      await get('/sessions?limit=1');
      needsToken.value = false;
      onSuccess();
    } catch (reason) {
      const isRejected = reason instanceof ApiError && reason.status === 401;
      setError(isRejected ? INVALID_TOKEN : errorText(reason));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          void logIn();
        }}
      >
        <BrandMark size={36} />
        <h1>Log in to ctx</h1>
        <p class="hint">
          This server requires a token. Create one on the server with <code>ctx token create</code>.
          The token is kept until you close this tab.
        </p>
        <label>
          Token
          <input
            type="password"
            name="token"
            autocomplete="off"
            spellcheck={false}
            required
            value={token}
            onInput={(event) => setInput(event.currentTarget.value)}
          />
        </label>
        <ErrorMessage text={error} />
        <button type="submit" class="primary" disabled={busy || !token.trim()}>
          Log in
        </button>
      </form>
    </main>
  );
}
