// A session with ten thousand messages opens quickly and scrolls smoothly. The test measures times,
// so no other test runs at the same time.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { scrollUp, taskTimes } from '../frame-times.mjs';
import { launchBrowser, openPage, Server } from '../harness.mjs';

/** Each turn has four messages. */
const TURNS = 2500;
const OPEN_MAX_MS = 1000;
const FRAME_MAX_MS = 50;
const NODES_MAX = 2000;
const SCROLL_MS = 5000;
const SCROLL_PX = 15_000;
/** Requests of data to open a session of any length: session list, session, newest turns. */
const REQUESTS_MAX = 12;
/** Other processes can delay the page. A slow attempt is repeated. If every attempt was slow, the
 * CPU time of the page itself is compared with the limit. */
const ATTEMPTS_MAX = 5;
const TASK_MAX_MS = FRAME_MAX_MS;
const OPEN_TASKS_MAX_MS = OPEN_MAX_MS;
const BUSY = 'all attempts were slow: only the CPU time of the page is checked';

let browser, server;
before(async () => {
  server = await Server.start('', { turns: TURNS });
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  await server?.end();
});

test('a session with ten thousand messages opens within a second', async () => {
  const page = await openPage(browser, server.url);
  await page.locator('.session').first().waitFor();
  let requests = 0;
  page.on('request', (request) => {
    if (new URL(request.url()).pathname.startsWith('/api/')) requests++;
  });
  const attempts = [];
  const isFast = ({ ms }) => ms < OPEN_MAX_MS;
  while (attempts.length < ATTEMPTS_MAX && !attempts.some(isFast)) {
    await page.goto('about:blank');
    await browser.startTracing(page, { categories: ['toplevel'] });
    requests = 0;
    const start = Date.now();
    await page.goto(`${server.url}/#/s/main`);
    await page.locator('.row-footer').last().waitFor();
    const ms = Date.now() - start;
    const tasks = taskTimes(await browser.stopTracing());
    attempts.push({ ms, tasksMs: tasks.reduce((sum, task) => sum + task, 0) });
    assert.ok(requests > 3 && requests <= REQUESTS_MAX, `${requests} requests`);
  }
  for (const { ms, tasksMs } of attempts) {
    console.log(`opened in ${ms} ms, CPU time of the page ${tasksMs.toFixed(0)} ms`);
  }
  if (!attempts.some(isFast)) {
    console.log(BUSY);
    const fastest = Math.min(...attempts.map(({ tasksMs }) => tasksMs));
    assert.ok(fastest <= OPEN_TASKS_MAX_MS, `${fastest} ms of CPU time`);
  }
  const session = await server.api('GET', '/sessions/main');
  assert.equal(session.turn_count, TURNS);
  await page.context().close();
});

test('scrolling for five seconds has no long frame and few nodes', async () => {
  const page = await openPage(browser, `${server.url}/#/s/main`);
  await page.locator('.row-footer').last().waitFor();
  const attempts = [];
  const isSmooth = ({ longestFrame }) => longestFrame <= FRAME_MAX_MS;
  while (attempts.length < ATTEMPTS_MAX && !attempts.some(isSmooth)) {
    await browser.startTracing(page, { categories: ['toplevel'] });
    const result = await page.evaluate(scrollUp, { ms: SCROLL_MS, px: SCROLL_PX });
    const longestTask = Math.max(...taskTimes(await browser.stopTracing()));
    attempts.push({ ...result, longestTask });
    assert.ok(result.nodes < NODES_MAX, `${result.nodes} nodes`);
    assert.equal(result.blankFrames, 0, 'every frame showed rows');
  }
  for (const { longestFrame, frames, longestTask, nodes, scrolled } of attempts) {
    console.log(
      `longest of ${frames} frames ${longestFrame.toFixed(1)} ms, ` +
        `longest task ${longestTask.toFixed(1)} ms, ${nodes} nodes, ${scrolled} px`,
    );
  }
  if (!attempts.some(isSmooth)) {
    console.log(BUSY);
    const best = Math.min(...attempts.map(({ longestTask }) => longestTask));
    assert.ok(best <= TASK_MAX_MS, `longest task ${best} ms`);
  }
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test('a jump to the start shows the first turn', async () => {
  const page = await openPage(browser, `${server.url}/#/s/main`);
  await page.locator('.row-footer').last().waitFor();
  await page.locator('.scroller').evaluate((scroller) => (scroller.scrollTop = 0));
  const { messages } = await server.api('GET', '/sessions/main/messages?limit=1');
  const text = messages[0].content[0].text.slice(0, 40);
  await page.locator('.row-user').filter({ hasText: text }).waitFor();
  await page.getByRole('button', { name: 'Jump to the end' }).click();
  const { turns } = await server.api('GET', '/sessions/main/turns?limit=1');
  await page.locator(`[data-key="footer:${turns[0].id}"]`).waitFor();
  await page.context().close();
});
