// Measures the page: a long session, a long list of sessions, a fast answer. Prints one line per
// number; docs/benchmarks.md records them. Usage: `CTX_BIN=… node bench.mjs [list|session|answer]`.
// Frames depend on what else the machine does, so the CPU time of the longest task is printed too.
import { createServer } from 'node:http';
import { scrollUp, taskTimes } from './test/frame-times.mjs';
import {
  defaultProvider,
  launchBrowser,
  modelConfig,
  openPage,
  Server,
  until,
} from './test/harness.mjs';

/** Each turn of the long session has four messages. */
const TURNS = 1250;
const SESSIONS = 10_000;
const REQUESTS_AT_ONCE = 48;
const SCROLL_MS = 5000;
const LONG_FRAME_MS = 50;
const TOKENS_PER_SECOND = 200;
const ANSWER_SECONDS = 10;

const print = (name, value) => console.log(`${name.padEnd(52)} ${value}`);
const round = (ms) => `${Math.round(ms)} ms`;

/** Megabytes of the JavaScript heap after a collection. */
async function heapMegabytes(page) {
  const client = await page.context().newCDPSession(page);
  await client.send('HeapProfiler.collectGarbage');
  const { usedSize } = await client.send('Runtime.getHeapUsage');
  return `${(usedSize / 1e6).toFixed(1)} MB`;
}

const firstPaint = (page) =>
  page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);

/** In the page: collects the times between frames until `window.stopFrames()` is called. */
function recordFrames() {
  const frames = [];
  let last = 0;
  let isStopped = false;
  const frame = (now) => {
    if (last) frames.push(now - last);
    last = now;
    if (!isStopped) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  window.stopFrames = () => {
    isStopped = true;
    return frames;
  };
}

/** Runs `act` and prints the frames and tasks of the page during it. */
async function measureFrames(name, browser, page, act) {
  await browser.startTracing(page, { categories: ['toplevel'] });
  await page.evaluate(recordFrames);
  await act();
  const frames = await page.evaluate(() => window.stopFrames());
  const tasks = taskTimes(await browser.stopTracing());
  const long = frames.filter((ms) => ms > LONG_FRAME_MS).length;
  print(`${name}: frames`, frames.length);
  print(`${name}: frames above ${LONG_FRAME_MS} ms`, long);
  print(`${name}: longest frame`, round(Math.max(...frames)));
  print(`${name}: longest task (CPU time)`, round(Math.max(...tasks)));
}

async function open(name, browser, url, ready) {
  const page = await openPage(browser, 'about:blank');
  const start = performance.now();
  await page.goto(url);
  await ready(page);
  print(`${name}: content shown after`, round(performance.now() - start));
  print(`${name}: first paint`, round(await firstPaint(page)));
  return page;
}

async function benchSession(browser) {
  const name = `session of ${(TURNS * 4).toLocaleString()} messages`;
  const server = await Server.start('', { turns: TURNS });
  const page = await open(name, browser, `${server.url}/#/s/main`, (page) =>
    page.locator('.row-footer').last().waitFor(),
  );
  await measureFrames(`${name}, scrolling`, browser, page, () =>
    page.evaluate(scrollUp, { ms: SCROLL_MS, px: 15_000 }),
  );
  print(`${name}: heap after scrolling`, await heapMegabytes(page));
  print(`${name}: nodes`, await page.evaluate(() => document.getElementsByTagName('*').length));
  await page.context().close();
  await server.end();
}

async function createSessions(server, count) {
  let next = 0;
  const work = async () => {
    while (next < count) await server.api('POST', '/sessions', { title: `session ${next++}` });
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, work));
}

async function benchList(browser) {
  const name = `list of ${SESSIONS.toLocaleString()} sessions`;
  const server = await Server.start();
  await createSessions(server, SESSIONS);
  const page = await open(name, browser, server.url, (page) =>
    page.locator('.session').first().waitFor(),
  );
  const scrollToEnd = async () => {
    const last = page.locator('.session').getByText('session 0', { exact: true });
    const start = performance.now();
    while ((await last.count()) === 0 && performance.now() - start < 180_000) {
      await page.locator('.sidebar').evaluate(async (box) => {
        for (let n = 0; n < 30; n++) {
          box.scrollTop += 400;
          await new Promise(requestAnimationFrame);
        }
      });
    }
    print(`${name}: scrolled to the end after`, round(performance.now() - start));
  };
  await measureFrames(`${name}, endless scrolling`, browser, page, scrollToEnd);
  print(`${name}: heap with all of them`, await heapMegabytes(page));
  print(`${name}: nodes`, await page.evaluate(() => document.getElementsByTagName('*').length));
  await page.context().close();
  await server.end();
}

/** A model that writes one token each five milliseconds. */
async function startFastModel() {
  const words = 'The retry loop **waits** before `each` attempt and\nthen\n\nstarts again '.split(
    ' ',
  );
  const server = createServer(async (request, response) => {
    for await (const chunk of request) void chunk;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const total = TOKENS_PER_SECOND * ANSWER_SECONDS;
    const start = performance.now();
    const write = (data) => response.write(`data: ${JSON.stringify(data)}\n\n`);
    for (let n = 0; n < total;) {
      const due = Math.min(total, ((performance.now() - start) / 1000) * TOKENS_PER_SECOND);
      for (; n < due; n++) {
        write({ choices: [{ index: 0, delta: { content: `${words[n % words.length]} ` } }] });
      }
      await new Promise((resolve) => setTimeout(resolve, 1000 / TOKENS_PER_SECOND));
    }
    write({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    response.end('data: [DONE]\n\n');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, end: () => server.close() };
}

async function benchAnswer(browser) {
  const name = `answer at ${TOKENS_PER_SECOND} tokens/s`;
  const model = await startFastModel();
  const config = modelConfig('fast', model.url, 'fast-1') + defaultProvider('fast');
  const server = await Server.start(config);
  const session = await server.api('POST', '/sessions', { title: 'fast' });
  const page = await openPage(browser, `${server.url}/#/s/${session.id}`);
  await page.locator('.no-messages').waitFor();
  await measureFrames(name, browser, page, async () => {
    await server.api('POST', `/sessions/${session.id}/messages`, { text: 'go' });
    await until('an idle session', async () => {
      const { state, turn_count } = await server.api('GET', `/sessions/${session.id}`);
      return state === 'idle' && turn_count === 1;
    });
  });
  await page.context().close();
  await server.end();
  model.end();
}

const benches = { session: benchSession, list: benchList, answer: benchAnswer };
const chosen = process.argv[2] ? [process.argv[2]] : Object.keys(benches);
const browser = await launchBrowser();
for (const name of chosen) await benches[name](browser);
await browser.close();
