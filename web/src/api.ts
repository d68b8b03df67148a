// HTTP client for the ctx API. Every failed request throws an `ApiError` with a stable code and,
// where the server sends one, a hint.
import { signal } from '@preact/signals';

const TOKEN_KEY = 'ctx.token';

/** True after a request was answered with 401, until a valid token is entered. */
export const needsToken = signal(false);

export class ApiError extends Error {
  constructor(
    readonly code: string,
    /** HTTP status; 0 if the server could not be reached. */
    readonly status: number,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

export const hasErrorCode = (error: unknown, code: string) =>
  error instanceof ApiError && error.code === code;

/** The error as one line for the user, with the hint in parentheses. */
export function errorText(error: unknown): string {
  if (error instanceof ApiError)
    return error.hint ? `${error.message} (${error.hint})` : error.message;
  return error instanceof Error ? error.message : String(error);
}

/** Stores the token for this tab only. */
export const setToken = (token: string) => sessionStorage.setItem(TOKEN_KEY, token);

function withToken(headers: Record<string, string>): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN_KEY);
  return token ? { authorization: `Bearer ${token}`, ...headers } : headers;
}

interface RequestOptions {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request and returns the response if its status is 2xx; throws an `ApiError` if not. */
export async function request(
  method: string,
  path: string,
  options: RequestOptions = {},
): Promise<Response> {
  const contentType: Record<string, string> =
    options.body === undefined ? {} : { 'content-type': 'application/json' };
  let response: Response;
  try {
    response = await fetch(`/api${path}`, {
      method,
      headers: withToken({ ...contentType, ...options.headers }),
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      cache: 'no-store',
      credentials: 'same-origin',
      redirect: 'error',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError('unreachable', 0, 'Cannot reach the server.');
  }
  if (response.ok) return response;
  throw await parseError(response);
}

async function parseError(response: Response): Promise<ApiError> {
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401) needsToken.value = true;
  const message = problem.detail ?? `${response.status} ${response.statusText}`;
  return new ApiError(problem.code ?? 'failed', response.status, message, problem.hint ?? null);
}

async function json<T>(response: Promise<Response>): Promise<T> {
  return (await response).json() as Promise<T>;
}

export const get = <T>(path: string, signal?: AbortSignal) =>
  json<T>(request('GET', path, { signal }));
export const post = <T>(path: string, body: unknown = {}, headers: Record<string, string> = {}) =>
  json<T>(request('POST', path, { body, headers }));
export const patch = <T>(path: string, body: unknown) => json<T>(request('PATCH', path, { body }));
export const remove = (path: string) => request('DELETE', path);

export const sessionPath = (session: string, rest = '') =>
  `/sessions/${encodeURIComponent(session)}${rest}`;

/** A key for one request: the server applies retries with the same key only once. */
export const newIdempotencyKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
