// Asking the server. Every failure is a `Problem` with a stable code and, where there is one, what to do next.
import { signal } from '@preact/signals';

const TOKEN = 'ctx.token';

/** Set while the server wants a token that the page has not. */
export const needsToken = signal(false);

export class Problem extends Error {
  constructor(
    readonly code: string,
    readonly status: number,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

export const isProblem = (error: unknown, code: string) => error instanceof Problem && error.code === code;

/** What went wrong, in words. */
export function told(error: unknown): string {
  if (error instanceof Problem) return error.hint ? `${error.message} (${error.hint})` : error.message;
  return String(error);
}

/** For this tab only. */
export const setToken = (token: string) => sessionStorage.setItem(TOKEN, token);

function headers(more: Record<string, string>): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

/** A request; what comes back is a success. */
export async function request(method: string, path: string, init: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal } = {}): Promise<Response> {
  const json: Record<string, string> = init.body === undefined ? {} : { 'content-type': 'application/json' };
  let response: Response;
  try {
    response = await fetch(`/api${path}`, {
      method,
      headers: headers({ ...json, ...init.headers }),
      body: init.body === undefined ? undefined : JSON.stringify(init.body),
      signal: init.signal,
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'error',
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem('unreachable', 0, 'The server does not answer.');
  }
  if (response.ok) return response;
  throw await problem(response);
}

async function problem(response: Response): Promise<Problem> {
  const document = await response.json().catch(() => ({}));
  if (response.status === 401) needsToken.value = true;
  return new Problem(document.code ?? 'failed', response.status, document.detail ?? `${response.status} ${response.statusText}`, document.hint ?? null);
}

async function json<T>(response: Promise<Response>): Promise<T> {
  return (await response).json() as Promise<T>;
}

export const get = <T>(path: string, signal?: AbortSignal) => json<T>(request('GET', path, { signal }));
export const post = <T>(path: string, body: unknown = {}, more: Record<string, string> = {}) => json<T>(request('POST', path, { body, headers: more }));
export const patch = <T>(path: string, body: unknown) => json<T>(request('PATCH', path, { body }));
export const remove = (path: string) => request('DELETE', path);

/** A session's path. */
export const at = (session: string, rest = '') => `/sessions/${encodeURIComponent(session)}${rest}`;

/** A name for one try of something, so that trying again does it once. */
export const once = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
