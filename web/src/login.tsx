// Off loopback the server wants a token. It is kept for this tab only.
import { useState } from 'preact/hooks';
import { get, needsToken, Problem, setToken, told } from './api';
import { Failed } from './bits';

const UNKNOWN = 'The server does not know this token.';

export function Login({ done }: { done(): void }) {
  const [token, set] = useState('');
  const [failed, setFailed] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const enter = async () => {
    // What cannot even be sent is no token.
    if (!/^[!-~]+$/.test(token.trim())) return setFailed(UNKNOWN);
    setBusy(true);
    setToken(token.trim());
    try {
      await get('/sessions?limit=1');
      needsToken.value = false;
      done();
    } catch (error) {
      setFailed(error instanceof Problem && error.status === 401 ? UNKNOWN : told(error));
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
          void enter();
        }}
      >
        <img src="/assets/icon.svg" alt="" width="36" height="36" />
        <h1>ctx wants a token</h1>
        <p class="hint">
          This server can be reached by others. Make a token where it runs, with <code>ctx token create</code>, and put it here. It is kept until this tab is closed.
        </p>
        <label>
          Token
          <input type="password" name="token" autocomplete="off" spellcheck={false} required value={token} onInput={(event) => set(event.currentTarget.value)} />
        </label>
        <Failed text={failed} />
        <button type="submit" class="primary" disabled={busy || !token.trim()}>
          Enter
        </button>
      </form>
    </main>
  );
}
