// Sessions: branches, rewind and retry, archive, search, delete, keyboard, drafts, unread, theme.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  DEMO,
  launchBrowser,
  messageField,
  sendMessage,
  Server,
  until,
  untilRow,
  withPage,
} from './harness.mjs';

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
const listItem = (page, session) => page.locator(`[data-session="${session.id}"]`);

test('a fork is independent, is drawn as a branch and compared with its origin', async () => {
  const session = await server.createSession({ title: 'trunk', label: 'trunk', message: 'one' });
  await server.send(session.id, 'two on the trunk');
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, 'two on the trunk');
    const firstFooter = page.locator('.row-footer').first();
    await firstFooter.getByRole('button', { name: 'Fork here' }).click();
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await sendMessage(page, 'two on the branch');
    await untilRow(page, DEMO.quote('two on the branch'));
    assert.equal(await page.locator('.row').filter({ hasText: 'two on the trunk' }).count(), 0);
    await page.getByRole('button', { name: 'Branches' }).click();
    await page.locator('.tree circle').nth(2).waitFor();
    await page.getByRole('link', { name: 'Compare with trunk' }).click();
    await page.getByText('1 turn in common').waitFor();
    const sides = page.locator('.pair').nth(1).locator('.side');
    assert.match(await sides.nth(0).innerText(), /two on the branch/);
    assert.match(await sides.nth(1).innerText(), /two on the trunk/);
  });
});

test('rewind moves the head back, and retry runs the last message again', async () => {
  const session = await server.createSession({ title: 'rewind', message: 'one' });
  await server.send(session.id, 'two');
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, DEMO.quote('two'));
    const footer = (n) => page.locator('.row-footer').nth(n);
    await footer(0).getByRole('button', { name: 'Rewind to here' }).click();
    const second = page
      .locator('.row')
      .filter({ hasText: DEMO.quote('two') })
      .first();
    await second.waitFor({ state: 'detached' });
    await sendMessage(page, 'another two');
    await untilRow(page, DEMO.quote('another two'));
    await footer(1).getByRole('button', { name: 'Retry the last message' }).click();
    await until('a fourth turn', async () => {
      const { turns } = await server.api('GET', `/sessions/${session.id}/tree`);
      return turns.length === 4;
    });
    await server.untilState(session.id, 'idle');
    await untilRow(page, DEMO.quote('another two'));
    const userRows = page.locator('.row-user').filter({ hasText: 'another two' });
    assert.equal(await userRows.count(), 1);
  });
});

// R207
test('a session is archived with a key and found by searching its messages', async () => {
  const message = 'quinces are hard';
  const session = await server.createSession({ title: 'about quinces', message });
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, message);
    await page.locator('.scroller').focus();
    await page.keyboard.press('e');
    await listItem(page, session).waitFor({ state: 'detached' });
    const showArchived = page.getByRole('button', { name: /^Show archived/ });
    await showArchived.click();
    await listItem(page, session).waitFor();
    await showArchived.click();
    await page.keyboard.press('/');
    await page.keyboard.type('quinces hard');
    const hit = page.locator('.search-hits a').filter({ hasText: message }).first();
    await page.goto(`${server.url}/#/`);
    await hit.click();
    await untilRow(page, message);
    await page.locator('.header-bar .chip').getByText('archived').waitFor();
  });
});

test('search as you type: marked hits by session, opened with the keyboard', async () => {
  const message = 'a marmalade recipe <b>without</b> sugar';
  const session = await server.createSession({ title: 'kitchen notes', message });
  await server.createSession({ title: 'other notes', message: 'marmalade elsewhere' });
  await onPage('#/', async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('marmal');
    const hits = page.locator('.search-hits');
    await hits.getByRole('heading', { name: 'kitchen notes' }).waitFor();
    await hits.getByRole('heading', { name: 'other notes' }).waitFor();
    await page.locator('#search').fill('marmalade recip');
    await hits.getByRole('heading', { name: 'other notes' }).waitFor({ state: 'detached' });
    assert.deepEqual(await hits.locator('mark').allTextContents(), ['marmalade', 'recipe']);
    assert.equal(await hits.locator('b').count(), 0, 'a message is text, not HTML');
    assert.match(await hits.locator('li .hint').first().innerText(), /^You ·/);
    await page.keyboard.press('ArrowDown');
    assert.match(await page.evaluate(() => document.activeElement.textContent), /marmalade/);
    await page.keyboard.press('ArrowUp');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
    await page.keyboard.press('Enter');
    await untilRow(page, 'a marmalade recipe');
    assert.ok(page.url().includes(`/s/${session.id}/turn/`), page.url());
    await page.keyboard.press('Escape');
    await hits.waitFor({ state: 'detached' });
  });
});

test('a misspelt word is corrected and a malformed query is explained', async () => {
  await server.createSession({ title: 'harbour', message: 'the lighthouse keeper' });
  await onPage('#/', async (page) => {
    await page.locator('#search').fill('lighthuose ');
    await page.getByRole('button', { name: 'Search for lighthouse' }).click();
    await page.locator('.search-hits a').filter({ hasText: 'lighthouse keeper' }).waitFor();
    await page.locator('#search').fill('/light(/');
    await page.locator('.search-hits').getByText('invalid search query').waitFor();
  });
});

test('keyboard shortcuts move through the list and open views', async () => {
  await server.createSession({ title: 'older one', message: 'a' });
  await server.createSession({ title: 'newer one', message: 'b' });
  await onPage('', async (page) => {
    const current = page.locator('.session.current');
    await page.locator('.session').first().getByText('newer one').waitFor();
    await page.keyboard.press('j');
    await current.getByText('newer one').waitFor();
    await page.keyboard.press('j');
    await current.getByText('older one').waitFor();
    await page.keyboard.press('k');
    await current.getByText('newer one').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog').getByText('Next and previous session').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('n');
    await page.getByRole('heading', { name: 'New session' }).waitFor();
  });
});

test('each session keeps its draft, and unread answers are marked', async () => {
  const one = await server.createSession({ title: 'draft one', message: 'x' });
  const two = await server.createSession({ title: 'draft two', message: 'y' });
  await onPage(`#/s/${one.id}`, async (page) => {
    const unread = listItem(page, one).locator('.unread');
    await messageField(page).fill('not sent yet');
    await listItem(page, two).click();
    await page.getByRole('heading', { name: 'draft two' }).waitFor();
    assert.equal(await messageField(page).inputValue(), '');
    await server.send(one.id, 'news');
    await unread.waitFor();
    await page.reload();
    await unread.waitFor();
    await listItem(page, one).click();
    await untilRow(page, DEMO.quote('news'));
    assert.equal(await messageField(page).inputValue(), 'not sent yet');
    await unread.waitFor({ state: 'detached' });
  });
});

test('the theme follows the system until one is chosen', () =>
  onPage('#/new', async (page) => {
    const isDark = () =>
      page.evaluate(() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 22, 26)');
    assert.equal(await isDark(), false);
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.equal(await isDark(), true);
    await page.getByRole('button', { name: 'Theme: auto' }).click();
    assert.equal(await isDark(), false, 'light was chosen');
    await page.reload();
    await page.getByRole('button', { name: 'Theme: light' }).click();
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await isDark(), true, 'dark was chosen');
  }));
