// The transcript during long answers: the scroll position is kept, and the page stays responsive.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DEMO, launchBrowser, sendMessage, Server, until, untilRow, withPage } from './harness.mjs';

const NODES_MAX = 2000;

let browser, server;
before(async () => {
  browser = await launchBrowser();
  server = await Server.start();
});
after(async () => {
  await browser?.close();
  await server?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);

test('the scroll position is kept while text is added below', async () => {
  const session = await server.createSession({ title: 'scroll', message: 'long 2000' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await sendMessage(page, 'slow 50');
    await untilRow(page, DEMO.filler);
    const topRow = () =>
      page.evaluate(() => {
        const { top } = document.querySelector('.scroller').getBoundingClientRect();
        const isVisible = (row) => row.getBoundingClientRect().bottom > top + 5;
        const row = [...document.querySelectorAll('.row')].find(isVisible);
        return `${row.dataset.key} ${Math.round(row.getBoundingClientRect().top - top)}`;
      });
    // The list follows its end until it has seen a scroll event, so one change can be undone.
    await until('a position above the end', async () => {
      await page.locator('.scroller').evaluate((scroller) => (scroller.scrollTop -= 500));
      return page.getByRole('button', { name: 'Jump to the answer' }).isVisible();
    });
    const before = await topRow();
    await server.untilState(session.id, 'idle');
    const jump = page.getByRole('button', { name: 'Jump to the end' });
    await jump.waitFor();
    assert.equal(await topRow(), before);
    await jump.click();
    await jump.waitFor({ state: 'detached' });
  });
});

test('the page stays responsive after an answer of twenty thousand words', async () => {
  const session = await server.createSession({ title: 'many words', message: 'hello' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await sendMessage(page, 'long 20000');
    const { head } = await until('a second turn', async () => {
      const found = await server.api('GET', `/sessions/${session.id}`);
      return found.turn_count === 2 && found.state === 'idle' && found;
    });
    await page.locator(`[data-key="footer:${head}"]`).waitFor();
    const tenFramesMs = async () => {
      const start = performance.now();
      for (let n = 0; n < 10; n++) await new Promise(requestAnimationFrame);
      return performance.now() - start;
    };
    await until('ten frames in a second', async () => (await page.evaluate(tenFramesMs)) < 1000);
    const nodes = await page.evaluate(() => document.getElementsByTagName('*').length);
    assert.ok(nodes < NODES_MAX, `${nodes} nodes`);
  });
});
