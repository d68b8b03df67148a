// Follows a feed of server-sent events. After a disconnect it continues with the event after the
// last received one. It uses `fetch`, because `EventSource` cannot send a token.
import { computed, signal } from '@preact/signals';
import { ApiError, request } from './api';
import type { FeedEvent } from './api-types';
import { SseParser } from './sse-parser';

/** The server sends a ping every 15 s. Without any data for this long the connection is closed. */
const IDLE_TIMEOUT_MS = 40_000;
/** Delay before each reconnection attempt; the last one repeats. */
const RETRY_MS = [250, 500, 1000, 2000, 3000];
/** A hidden tab closes its connections after this time: browsers allow only six per server. */
const HIDDEN_TIMEOUT_MS = 20_000;

type Connection = 'connecting' | 'connected' | 'lost';

/** The state of each open stream. A stream that was closed does not count, so that the page never
 * reports a connection that it does not need any more. */
const streams = signal<ReadonlyMap<symbol, Connection>>(new Map());

export const connection = computed((): Connection => {
  const states = [...streams.value.values()];
  if (states.includes('lost')) return 'lost';
  return states.includes('connected') ? 'connected' : 'connecting';
});

function setStream(stream: symbol, state: Connection | null): void {
  if ((streams.value.get(stream) ?? null) === state) return;
  const next = new Map(streams.value);
  if (state === null) next.delete(stream);
  else next.set(stream, state);
  streams.value = next;
}

export interface EventHandler {
  /** The id after which the stream continues; read before each connection attempt. */
  lastEventId(): number | null;
  onEvent(event: FeedEvent): void;
  /** Called after every connect and reconnect. */
  onOpen(): void;
  /** Called when the server answers 401 or 404. There is no further attempt. */
  onEnd?(error: ApiError): void;
}

/** Follows the feed until the returned function is called. */
export function followEvents(path: string, handler: EventHandler): () => void {
  let stopped = false;
  const stream = Symbol(path);
  let current: AbortController | null = null;
  const run = async () => {
    for (let failures = 0; !stopped; failures++) {
      await untilVisible();
      if (stopped) return;
      current = new AbortController();
      const open = () => {
        setStream(stream, 'connected');
        handler.onOpen();
      };
      const result = await connect(path, handler, open, current).catch((error: unknown) => error);
      if (stopped) return;
      if (result === true) failures = 0;
      else if (result instanceof ApiError && [401, 404].includes(result.status)) {
        setStream(stream, null);
        return handler.onEnd?.(result);
      }
      if (!document.hidden) setStream(stream, 'lost');
      await delay(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]!);
    }
  };
  const stopWatching = onHidden(() => current?.abort());
  void run();
  return () => {
    stopped = true;
    setStream(stream, null);
    stopWatching();
    current?.abort();
  };
}

/** Reads one connection until it ends. Throws if it could not be opened, else returns true. */
async function connect(
  path: string,
  handler: EventHandler,
  onOpen: () => void,
  controller: AbortController,
): Promise<true> {
  const after = handler.lastEventId();
  const headers: Record<string, string> = after === null ? {} : { 'last-event-id': String(after) };
  const response = await request('GET', path, { signal: controller.signal, headers });
  onOpen();
  const parser = new SseParser();
  const decoder = new TextDecoder();
  const body = response.body!.getReader();
  try {
    for (;;) {
      const timer = setTimeout(() => controller.abort(), IDLE_TIMEOUT_MS);
      const { done, value } = await body.read().finally(() => clearTimeout(timer));
      if (done) return true;
      const events = parser.push(decoder.decode(value, { stream: true }));
      for (const event of events) handler.onEvent(event);
    }
  } catch {
    return true;
  }
}

/** Waits, but not longer than until the browser is online again. */
function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener('online', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener('online', done);
  });
}

function untilVisible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) =>
    document.addEventListener('visibilitychange', () => resolve(), { once: true }),
  );
}

/** Calls `action` when the tab was hidden for `HIDDEN_TIMEOUT_MS`. Returns a function to stop. */
function onHidden(action: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onChange = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(action, HIDDEN_TIMEOUT_MS);
  };
  document.addEventListener('visibilitychange', onChange);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', onChange);
  };
}
