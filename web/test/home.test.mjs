// The home and the list of sessions: composer, days, what needs a reply, forks, titles, scrolling.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DEMO, launchBrowser, Server, until, untilRow, withPage } from './harness.mjs';

let browser, server;
before(async () => {
  browser = await launchBrowser();
  server = await Server.start();
});
after(async () => {
  await browser?.close();
  await server?.end();
});

const onPage = (hash, act, options) => withPage(browser, `${server.url}/${hash}`, act, options);
const item = (page, session) => page.locator(`[data-session="${session.id}"]`);

test('the home is a composer with the sessions of today and what needs a reply on top', async () => {
  const asking = await server.createSession({ title: 'asks first', message: 'permission' });
  await server.createSession({ title: 'newer and idle', message: 'hello' });
  await onPage('', async (page) => {
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('from the home');
    const headings = page.locator('.sessions h2');
    await page.locator('.session').nth(1).waitFor();
    assert.deepEqual(await headings.allInnerTexts(), ['Needs a reply', 'Today']);
    const first = page.locator('.session').first();
    assert.equal(await first.getAttribute('data-session'), asking.id);
    await page.locator('.waiting').getByText(DEMO.permission).waitFor();
    await page.keyboard.press('Enter');
    await untilRow(page, DEMO.quote('from the home'));
    await page.getByRole('link', { name: 'New', exact: true }).waitFor();
  });
});

test('sessions of earlier days have the day as a heading', () =>
  withPage(browser, 'about:blank', async (page) => {
    await page.clock.install({ time: Date.now() + 24 * 3600 * 1000 });
    await server.createSession({ title: 'of the day before', message: 'hello' });
    await page.goto(server.url);
    await page.locator('.sessions h2').getByText('Yesterday').waitFor();
  }));

test('twenty sessions fit on a laptop screen, and scrolling loads more without end', async () => {
  const many = await Server.start();
  try {
    const create = (n) => many.api('POST', '/sessions', { title: `session ${n}` });
    for (let n = 0; n < 130; n++) await create(n);
    const act = async (page) => {
      const visible = () =>
        page.locator('.session').evaluateAll(
          (rows) =>
            rows.filter((row) => {
              const { top, bottom } = row.getBoundingClientRect();
              return top >= 0 && bottom <= innerHeight;
            }).length,
        );
      await page.locator('.session').nth(20).waitFor();
      assert.ok((await visible()) >= 20, `${await visible()} rows`);
      const oldest = page.locator('.session').getByText('session 0', { exact: true });
      await until('the oldest session', async () => {
        await page.locator('.sidebar').evaluate((box) => (box.scrollTop += 2000));
        return (await oldest.count()) > 0;
      });
      assert.ok((await page.locator('.session').count()) < 90, 'only rows near the window exist');
      // The link to a new session stays in view.
      const { y } = await page.getByRole('link', { name: 'New', exact: true }).boundingBox();
      assert.ok(y >= 0 && y < 60, `New is at ${y}`);
    };
    await withPage(browser, many.url, act, { viewport: { width: 1366, height: 768 } });
  } finally {
    await many.end();
  }
});

test('a session gets a title from its first message and is renamed in the list', async () => {
  const message = '## Fix the **retry** loop in `main.rs`\n\nIt never ends.';
  const session = await server.createSession({ message });
  await onPage('', async (page) => {
    const row = item(page, session);
    await row.getByText('Fix the retry loop in main.rs…').waitFor();
    await row.hover();
    await page.getByRole('button', { name: /^Rename Fix the retry/ }).click();
    const field = page.locator('.title-field');
    await field.fill('Retry loop');
    await field.press('Enter');
    await row.getByText('Retry loop', { exact: true }).waitFor();
    await until('the stored title', async () => {
      const stored = await server.api('GET', `/sessions/${session.id}`);
      return stored.title === 'Retry loop';
    });
    await row.focus();
    await page.keyboard.press('F2');
    await field.fill('not saved');
    await field.press('Escape');
    await row.getByText('Retry loop', { exact: true }).waitFor();
  });
});

test('a fork stands under its origin and names the turn where it starts', async () => {
  const origin = await server.createSession({ title: 'the origin', message: 'one' });
  await server.send(origin.id, 'two');
  const { turns } = await server.api('GET', `/sessions/${origin.id}/turns`);
  const body = { turn_id: turns[1].id };
  const fork = await server.api('POST', `/sessions/${origin.id}/fork`, body);
  await server.createSession({ title: 'another one', message: 'hello' });
  await server.api('PATCH', `/sessions/${fork.id}`, { title: 'the fork' });
  await server.send(origin.id, 'three');
  await onPage(`#/s/${fork.id}`, async (page) => {
    await item(page, fork).getByText('forked from the origin at turn 1').waitFor();
    const top = async (session) => (await item(page, session).boundingBox()).y;
    const gap = (await top(fork)) - (await top(origin));
    assert.ok(gap > 0 && gap < 60, `the fork is ${gap} px below its origin`);
    const indent =
      (await item(page, fork).boundingBox()).x - (await item(page, origin).boundingBox()).x;
    assert.ok(indent > 5, 'it is indented');
    await page.locator('.header-details').getByText('forked from the origin at turn 1').click();
    await page.getByRole('heading', { name: 'the origin' }).waitFor();
  });
});

test('forks without a title of their own have names that differ', async () => {
  const origin = await server.createSession({ title: 'same name', message: 'one' });
  const fork = () => server.api('POST', `/sessions/${origin.id}/fork`, {});
  const [first, second] = [await fork(), await fork()];
  for (const { id } of [first, second]) await server.send(id, 'on a branch');
  await onPage('', async (page) => {
    await item(page, first).locator('.session-name').getByText('same name (fork 1)').waitFor();
    await item(page, second).locator('.session-name').getByText('same name (fork 2)').waitFor();
    assert.equal(await item(page, origin).locator('.session-name').innerText(), 'same name');
    await page.goto(`${server.url}/#/s/${first.id}/compare/${second.id}`);
    const headings = page.locator('.pair-head h2 > a');
    await headings.first().waitFor();
    assert.deepEqual(await headings.allInnerTexts(), ['same name (fork 1)', 'same name (fork 2)']);
    await page.goto(`${server.url}/#/usage`);
    const names = page.locator('.usage-sessions').first().locator('td a');
    await names.filter({ hasText: 'same name (fork 2)' }).waitFor();
    const texts = await names.allInnerTexts();
    assert.equal(new Set(texts).size, texts.length, texts.join());
    // Renaming starts from the title, without the number.
    await page.goto(`${server.url}/#/s/${second.id}`);
    await page.getByRole('button', { name: 'same name (fork 2)', exact: true }).click();
    const field = page.locator('.header-bar').getByLabel('Title');
    assert.equal(await field.inputValue(), 'same name');
    await field.fill('a name of its own');
    await field.press('Enter');
    await item(page, second).getByText('a name of its own').waitFor();
  });
});

test('the page requests the list and the icon once', () =>
  withPage(browser, 'about:blank', async (page) => {
    const paths = [];
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url());
      paths.push(pathname + search);
    });
    await page.goto(server.url);
    await page.locator('.session').first().waitFor();
    await page.getByText('Connected', { exact: true }).waitFor({ state: 'attached' });
    await page.waitForLoadState('networkidle').catch(() => undefined);
    const count = (pattern) => paths.filter((path) => pattern.test(path)).length;
    assert.equal(count(/^\/api\/sessions\?limit=50/), 1, paths.join(' '));
    assert.ok(count(/icon\.svg/) <= 1, paths.join(' '));
  }));

test('on a narrow screen the composer is above the list', () =>
  onPage(
    '',
    async (page) => {
      const field = page.getByRole('textbox', { name: 'Message', exact: true });
      const [composer, list] = [await field.boundingBox(), page.locator('.sessions')];
      assert.ok((await list.boundingBox()).y > composer.y);
      await field.fill('hello from a phone');
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      await untilRow(page, DEMO.quote('hello from a phone'));
    },
    { viewport: { width: 390, height: 844 } },
  ));
