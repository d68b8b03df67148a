// The npm client follows a session while ctx is killed three times.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stream } from '@durable-streams/client';
import { CtxServer } from './ctx-server.mjs';

const KILLS = 3;
const STARTED = /^run\.started$/;
const ENDED = /^run\.(completed|failed|cancelled)$/;
const CONFIG = '[defaults]\nprovider = "demo"\n\n[providers.demo]\nkind = "demo"\n';

/** Follows a stream until it is aborted. After an error it continues at its last offset, as a program would. */
async function follow(url, live, signal, onEvent) {
  let offset = '-1';
  while (!signal.aborted) {
    try {
      const response = await stream({ url, live, offset, signal, json: true });
      response.subscribeJson(async (batch) => {
        for (const event of batch.items) onEvent(event);
        offset = batch.offset;
      });
      await response.closed;
    } catch (error) {
      if (signal.aborted) return;
      if (error.status >= 400 && error.status < 500) throw error;
    }
  }
}

async function until(what, condition) {
  const deadline = Date.now() + 30_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

for (const live of ['long-poll', 'sse']) {
  test(`no event is missing or twice over ${KILLS} kills (${live})`, { timeout: 60_000 }, async (t) => {
    const server = await CtxServer.start(CONFIG);
    const session = await server.api('POST', '/sessions', { label: 'followed' });
    const done = new AbortController();
    t.after(async () => {
      done.abort();
      await server.end();
    });
    const received = [];
    const count = (type) => received.filter((event) => type.test(event.type)).length;
    let failure;
    follow(`${server.url}/api/sessions/followed/stream`, live, done.signal, (event) => received.push(event)).catch(
      (error) => (failure = error),
    );
    const send = (n) =>
      server.api('POST', '/sessions/followed/messages', { text: 'slow 5', queue_mode: 'queue' }, {
        'idempotency-key': `message-${n}`,
      });
    for (let kill = 0; kill < KILLS; kill += 1) {
      for (let n = 0; n < 2; n += 1) await send(kill * 10 + n);
      // The kill hits a session with a run, a backlog and a follower.
      await until('a run is open', () => failure || count(STARTED) > count(ENDED));
      await server.killAndRestart();
    }
    await send(99);
    const idle = async () => {
      const now = await server.api('GET', '/sessions/followed');
      return now.state === 'idle' && now.waiting === 0 && now;
    };
    await until('the session is idle', idle);
    const { seq } = await idle();
    await until('all events arrive', () => failure || received.length >= seq);
    assert.equal(failure, undefined);
    const stored = await server.api('GET', '/sessions/followed/stream');
    assert.deepEqual(
      received.map((event) => event.seq),
      Array.from({ length: seq }, (_, n) => n + 1),
      'each event once, in order',
    );
    assert.deepEqual(received, stored);
    assert.ok(received.some((event) => event.session === session.id));
    assert.equal(count(STARTED), count(ENDED), 'every run ended');
    const cutOff = received.filter((event) => event.code === 'interrupted').length;
    assert.ok(cutOff > 0, 'a kill cut a run off');
    t.diagnostic(`${seq} events, ${count(STARTED)} runs, ${cutOff} of them cut off`);
  });
}
