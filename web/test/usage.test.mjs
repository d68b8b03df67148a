// The usage page: totals, charts whose marks are filters, time range, keyboard, CSV, tables.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { checkView } from './axe-check.mjs';
import { launchBrowser, modelConfig, Server, startModel, withPage } from './harness.mjs';
import { dayBefore, importUsage, PRICES } from './usage-fixture.mjs';

let browser, server, model;
before(async () => {
  browser = await launchBrowser();
  model = await startModel();
  server = await Server.start(PRICES + modelConfig('echo', model.url, 'small-1'));
  await importUsage(server);
  await server.createSession({ title: 'Other project', project: 'gamma', message: 'hello' });
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);
const chart = (page, name) => page.getByRole('region', { name, exact: true });
const sessionsShown = (page) =>
  page.getByRole('region', { name: /^Sessions: / }).locator('.usage-sessions td:first-child');

test('totals are those of the range, and costs that are not known are named', async () => {
  await onPage('#/usage', async (page) => {
    const cost = page.locator('.totals > div').filter({ hasText: 'Cost' });
    // 2 × (0.2 M at 10 + 0.02 M at 40) and 0.05 M at 1 + 0.005 M at 4, and the answer of today.
    await cost.getByText('≥ $5.67').waitFor();
    await cost.getByText('1 turn without a known cost').waitFor();
    await chart(page, 'Dearest sessions').getByRole('link', { name: 'Add retries' }).waitFor();
    const longest = chart(page, 'Longest sessions').locator('tbody tr').first();
    assert.match(await longest.innerText(), /Look for the slow query\s+1 h 35 min/);
    await page.getByRole('link', { name: 'Year' }).click();
    await cost.getByText('2 turns without a known cost').waitFor();
    await page.getByLabel('To', { exact: true }).fill(dayBefore(100));
    await page.locator('.totals').getByText('unknown').waitFor();
  });
});

test('every mark is a filter that leads to its sessions', async () => {
  await onPage('#/usage', async (page) => {
    const day = dayBefore(1);
    const name = new Date(day).toLocaleDateString('en-US', {
      day: 'numeric',
      month: 'short',
      year: 'numeric',
      timeZone: 'UTC',
    });
    await chart(page, 'Activity')
      .getByRole('link', { name: `${name}: 2 turns` })
      .click();
    await sessionsShown(page).nth(1).waitFor();
    assert.deepEqual((await sessionsShown(page).allInnerTexts()).sort(), [
      'Add retries to the fetcher',
      'Look for the slow query',
    ]);
    await page.getByRole('link', { name: /^Day: .* remove this filter$/ }).click();

    await page
      .getByRole('link', { name: /, large-1: / })
      .first()
      .click();
    await page.getByRole('list', { name: 'Filters' }).getByText('Model: large-1').waitFor();
    await page.getByRole('region', { name: /^Sessions: .*large-1$/ }).waitFor();
    assert.deepEqual(await sessionsShown(page).allInnerTexts(), ['Add retries to the fetcher']);
    await page.getByRole('link', { name: 'Remove all' }).click();

    await page
      .getByRole('group', { name: 'Cost by project' })
      .getByRole('link', { name: /gamma/ })
      .click();
    await page.getByRole('region', { name: 'Sessions: gamma' }).waitFor();
    assert.deepEqual(await sessionsShown(page).allInnerTexts(), ['Other project']);
    await page.getByRole('link', { name: /^Project: gamma/ }).click();

    const tools = chart(page, 'Tools');
    await tools.getByText('3 calls, 1 failed (33 %)').waitFor();
    await tools.locator('.tool-bars').getByRole('link', { name: 'bash' }).click();
    await page.getByRole('region', { name: 'Sessions: bash' }).waitFor();
    assert.deepEqual(await sessionsShown(page).allInnerTexts(), ['Add retries to the fetcher']);
    await sessionsShown(page).getByRole('link').click();
    await page.locator('.row-user').first().waitFor();
    await page.goBack();
    await page.getByRole('region', { name: 'Sessions: bash' }).waitFor();
  });
});

test('charts are reached and left by the keyboard, one tab stop each', async () => {
  await onPage('#/usage', async (page) => {
    await chart(page, 'Activity').locator('a.day').first().waitFor();
    assert.equal(await chart(page, 'Activity').locator('a.day[tabindex="0"]').count(), 1);
    await chart(page, 'Activity').locator('a.day[tabindex="0"]').focus();
    await page.keyboard.press('ArrowLeft');
    const days = () => page.evaluate(() => document.activeElement.getAttribute('data-x'));
    const week = Number(await days());
    await page.keyboard.press('ArrowLeft');
    assert.equal(Number(await days()), week - 1);
    const bars = page.getByRole('group', { name: 'Cost by model' });
    await bars.locator('a[tabindex="0"]').focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: /^Sessions: / }).waitFor();
  });
});

test('a chart can be read as a table and downloaded as CSV', async () => {
  await server.createSession({ title: '=HYPERLINK("x")', message: 'hello' });
  await onPage('#/usage', async (page) => {
    await chart(page, 'Activity').getByText('Show as a table').click();
    const cells = chart(page, 'Activity').locator('.chart-table tbody tr').first();
    assert.match(await cells.innerText(), /^\d{4}-\d{2}-\d{2}\s/);
    // What is a list or a table already has no second one.
    for (const name of ['Tools', 'Dearest sessions'])
      assert.equal(await chart(page, name).locator('.chart-table').count(), 0, name);
    const download = async (name) => {
      const waiting = page.waitForEvent('download');
      await page.getByRole('button', { name: `Download ${name} as CSV` }).click();
      const file = await waiting;
      return [file.suggestedFilename(), await readFile(await file.path(), 'utf8')];
    };
    const [toolsName, tools] = await download('Tools');
    assert.equal(toolsName, 'ctx-tools.csv');
    assert.match(tools, /^Tool,Calls,Failed,Turns\r\nbash,3,1,2\r\n/);
    const [, sessions] = await download('Dearest sessions');
    assert.match(sessions, /"'=HYPERLINK\(""x""\)"/, 'no cell is a formula');
    await page.getByLabel('Tokens').check();
    await page.getByRole('region', { name: 'Tokens per day by model' }).waitFor();
  });
});

test('a store without usage leads to a new session', async () => {
  const empty = await Server.start();
  try {
    await withPage(browser, `${empty.url}/#/usage`, async (page) => {
      await page.getByText('No usage yet').waitFor();
      await page.getByRole('link', { name: 'Start a session' }).click();
      await page.getByRole('heading', { name: 'New session' }).waitFor();
    });
  } finally {
    await empty.end();
  }
});

test('axe finds no violations on the usage page', async () => {
  await checkView(browser, 'usage', `${server.url}/#/usage`, async (page) => {
    await chart(page, 'Activity').getByText('Show as a table').click();
  });
  const filtered = `${server.url}/#/usage/${encodeURIComponent('model=large-1&since=365d')}`;
  await checkView(browser, 'filtered usage', filtered, (page) =>
    sessionsShown(page).first().waitFor(),
  );
});
