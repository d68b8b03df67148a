// Following a feed for ever: by fetch, so that a token can be sent; from the last event on, whatever was cut off.
import { signal } from '@preact/signals';
import { Problem, request } from './api';
import { Reader } from './sse';
import type { Sent } from './types';

/** The server says something every 15 s; after so long a silence the connection is dead. */
const SILENCE_MS = 40_000;
const AGAIN_MS = [250, 500, 1000, 2000, 3000];
/** A tab that nobody sees gives its connections back after so long: browsers allow a server only six. */
const HIDDEN_MS = 20_000;

/** Whether the server answers. */
export const link = signal<'connecting' | 'live' | 'lost'>('connecting');

export interface Follower {
  /** From which event on; read before each attempt. */
  after(): number | null;
  event(event: Sent): void;
  /** The connection stands, again if it did before. */
  opened(): void;
  /** It will not come back. */
  gone?(problem: Problem): void;
}

/** Follows until the returned function is called. */
export function follow(path: string, follower: Follower): () => void {
  let stopped = false;
  let current: AbortController | null = null;
  const run = async () => {
    for (let failures = 0; !stopped; failures++) {
      await shown();
      if (stopped) return;
      current = new AbortController();
      const opened = await once(path, follower, current).catch((error: unknown) => error);
      if (stopped) return;
      if (opened === true) failures = 0;
      else if (opened instanceof Problem && [401, 404].includes(opened.status)) return follower.gone?.(opened);
      if (!document.hidden) link.value = 'lost';
      await pause(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)]!);
    }
  };
  const stopHidden = whenHidden(() => current?.abort());
  void run();
  return () => {
    stopped = true;
    stopHidden();
    current?.abort();
  };
}

/** One connection, until it ends; true if it stood. */
async function once(path: string, follower: Follower, controller: AbortController): Promise<boolean> {
  const after = follower.after();
  const response = await request('GET', path, { signal: controller.signal, headers: after === null ? {} : { 'last-event-id': String(after) } });
  link.value = 'live';
  follower.opened();
  const reader = new Reader();
  const decoder = new TextDecoder();
  const body = response.body!.getReader();
  try {
    for (;;) {
      const timer = setTimeout(() => controller.abort(), SILENCE_MS);
      const { done, value } = await body.read().finally(() => clearTimeout(timer));
      if (done) return true;
      for (const event of reader.push(decoder.decode(value, { stream: true }))) follower.event(event);
    }
  } catch {
    return true;
  }
}

function pause(ms: number): Promise<void> {
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

function shown(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener('visibilitychange', () => resolve(), { once: true }));
}

function whenHidden(act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(act, HIDDEN_MS);
  };
  document.addEventListener('visibilitychange', changed);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', changed);
  };
}
