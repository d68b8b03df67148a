// Keyboard and following: messages, branches, palette, find, help, where reading stopped, badges,
// folded tool calls.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  DEMO,
  DEMO_CONFIG,
  defaultProvider,
  launchBrowser,
  modelConfig,
  Server,
  startModel,
  until,
  untilRow,
  withPage,
} from './harness.mjs';

let browser, server, model;
before(async () => {
  browser = await launchBrowser();
  const call = { name: 'ask_user', params: {} };
  model = await startModel({ 'use tools': { text: 'Working.', call }, otherwise: 'ok' });
  const echo = modelConfig('echo', model.url, 'echo-1');
  server = await Server.start(DEMO_CONFIG + echo + defaultProvider('demo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);
const listItem = (page, session) => page.locator(`[data-session="${session.id}"]`);

test('what is typed after the first message and after a fork is a message', async () => {
  await onPage('#/new', async (page) => {
    const field = page.locator('.composer textarea');
    const typed = 'explain more'; // `e` archives and `n` opens a new session elsewhere
    await field.fill('what is a walrus');
    await page.keyboard.press('Enter');
    await page.locator('.row-footer').last().waitFor();
    await page.keyboard.type(typed);
    assert.equal(await field.inputValue(), typed);
    await field.fill('');
    const before = page.url();
    await page.getByRole('button', { name: 'Fork here' }).last().click();
    await until('the fork is open', () => page.url() !== before);
    await page.locator('.row-footer').last().waitFor();
    await page.keyboard.type(typed);
    assert.equal(await field.inputValue(), typed);
  });
});

test('J and K go from message to message of the user', async () => {
  const session = await server.createSession({ title: 'jumps', message: 'long 900 one' });
  for (const text of ['long 900 two', 'long 900 three']) await server.send(session.id, text);
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').last().waitFor();
    await page.locator('.scroller').focus();
    const untilAtTop = (text) =>
      until(`${text} is at the top`, () =>
        page.evaluate((text) => {
          const { top } = document.querySelector('.scroller').getBoundingClientRect();
          const rows = [...document.querySelectorAll('.row-user')];
          const row = rows.find((one) => one.textContent.includes(text));
          return row && Math.abs(row.getBoundingClientRect().top - top) < 30;
        }, text),
      );
    const press = (key) => page.keyboard.press(key);
    await press('K');
    await untilAtTop('three');
    await press('K');
    await untilAtTop('two');
    await press('K');
    await untilAtTop('one');
    await press('J');
    await untilAtTop('two');
    await page.mouse.move(700, 400);
    const scrolled = () => page.locator('.scroller').evaluate((box) => box.scrollTop);
    const start = await scrolled();
    await page.mouse.wheel(0, 600);
    await until('the wheel has scrolled', async () => (await scrolled()) !== start);
    await press('K');
    await untilAtTop('two');
  });
});

test('brackets go from branch to branch', async () => {
  const session = await server.createSession({ title: 'stem', label: 'a-stem', message: 'one' });
  await server.api('POST', `/sessions/${session.id}/fork`, { label: 'b-branch' });
  await server.send('b-branch', 'on the branch');
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await page.keyboard.press(']');
    await untilRow(page, DEMO.quote('on the branch'));
    await page.keyboard.press('[');
    await page.locator('.row').filter({ hasText: 'on the branch' }).first().waitFor({
      state: 'detached',
    });
  });
});

test('the palette opens sessions and runs actions', async () => {
  const session = await server.createSession({ title: 'quince jelly', message: 'hello' });
  await onPage('', async (page) => {
    await page.locator('.session').first().waitFor();
    await page.getByRole('textbox', { name: 'Message', exact: true }).focus();
    await page.keyboard.press('Control+k');
    const palette = page.getByRole('dialog', { name: 'Open a session or run an action' });
    // The palette is loaded at its first use; what is typed meanwhile is not lost.
    await page.keyboard.type('quince');
    await palette.getByRole('option', { name: /^quince jelly/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForFunction((id) => location.hash.includes(id), session.id);
    await page.locator('.row-footer').waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('archive');
    await palette.getByRole('option', { name: /^Archive this session/ }).waitFor();
    await page.keyboard.press('Enter');
    await listItem(page, session).waitFor({ state: 'detached' });
    const help = page.getByRole('dialog').getByText('Open a session or run an action');
    await until('the help is open', async () => {
      // The field of a new session takes the focus when it appears.
      await page.evaluate(() => document.activeElement?.blur());
      await page.keyboard.press('?');
      return help.isVisible();
    });
  });
});

test('the palette has every action of the page', async () => {
  const session = await server.createSession({ title: 'palette', message: 'one' });
  await server.send(session.id, 'two');
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, DEMO.quote('two'));
    const palette = page.getByRole('dialog', { name: 'Open a session or run an action' });
    const open = async (words) => {
      // Ctrl K would close a palette that is still there.
      await palette.waitFor({ state: 'hidden' });
      await page.locator('.scroller, .page-body').first().focus();
      await page.keyboard.press('Control+k');
      await palette.getByRole('combobox').fill(words);
    };
    const choose = async (words) => {
      await open(words);
      await palette.getByRole('option').first().waitFor();
      await page.keyboard.press('Enter');
    };
    const found = {
      usage: 'Usage',
      setup: 'Setup: models and agents',
      settings: 'Settings',
      export: 'Export and share this session',
      share: 'Export and share this session',
      rename: 'Rename this session',
      rewind: 'Rewind by one turn',
      undo: 'Undo the last action',
      new: 'New session',
      search: 'Search messages',
      theme: 'Change the theme',
      archive: 'Archive this session',
      compare: 'Compare with another branch',
      fork: 'Fork this session',
    };
    for (const [words, text] of Object.entries(found)) {
      await open(words);
      const first = palette.getByRole('option').first().locator('.palette-text');
      assert.equal(await first.innerText(), text, words);
      await page.keyboard.press('Escape');
    }
    await choose('rewind');
    await page.locator('.toast').getByText('Moved back to turn 1').waitFor();
    await choose('undo');
    await untilRow(page, DEMO.quote('two'));
    await choose('rename');
    await page.locator('.header-bar').getByLabel('Title').fill('renamed from the palette');
    await page.keyboard.press('Enter');
    await listItem(page, session).getByText('renamed from the palette').waitFor();
    await choose('share');
    await page.getByRole('dialog', { name: 'Export and share' }).waitFor();
    await page.keyboard.press('Escape');
    await choose('fork');
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await page.locator('.row-footer').first().waitFor();
    await choose('compare');
    await page.getByRole('heading', { name: 'Compare branches' }).waitFor();
    await choose('settings');
    const theme = page.getByLabel('Theme of this browser');
    await until('the settings are in view', async () => {
      const box = await theme.boundingBox();
      return box && box.y > 0 && box.y < 500;
    });
  });
});

// A hit opens at its place, not only in its session.
test('a search hit opens at the words that were found and marks them', async () => {
  const session = await server.createSession({ title: 'long notes', message: 'long 2000' });
  await server.send(session.id, 'the zanzibar entry');
  await server.send(session.id, 'long 2000 again');
  await onPage('', async (page) => {
    await page.locator('.session').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('zanzi');
    await page.locator('.search-hits mark').first().waitFor();
    await page.keyboard.press('Enter');
    const row = page.locator('.row-user').filter({ hasText: 'zanzibar' });
    await row.waitFor();
    await until('the row is in view', async () => {
      const box = await row.boundingBox();
      return box && box.y > 0 && box.y < 700;
    });
    const marked = () =>
      page.evaluate(() => [...(CSS.highlights.get('found') ?? [])].map(String).join());
    await until('the word is marked', async () => (await marked()) === 'zanzibar');
  });
});

test('a line marks where reading stopped, and the list counts what is unread', async () => {
  const session = await server.createSession({ title: 'followed', message: 'one' });
  const other = await server.createSession({ title: 'meanwhile', message: 'hello' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, DEMO.quote('one'));
    await listItem(page, other).click();
    await page.getByRole('heading', { name: 'meanwhile' }).waitFor();
    for (const text of ['two', 'three']) await server.send(session.id, text);
    await listItem(page, session).locator('.unread-badge').getByText('2').waitFor();
    await listItem(page, session).click();
    await untilRow(page, DEMO.quote('three'));
    const mark = page.locator('.unread-mark');
    assert.equal(await mark.innerText(), '2 new turns since your last visit');
    const kinds = await page
      .locator('.row')
      .evaluateAll((rows) => rows.map((row) => row.className.split('row-')[1]));
    assert.equal(kinds[kinds.indexOf('unread') - 1], 'footer');
    assert.equal(kinds[kinds.indexOf('unread') + 1], 'user');
    await listItem(page, session).locator('.unread-badge').waitFor({ state: 'detached' });
  });
});

test('consecutive tool calls are one block with a line each', async () => {
  const bundle = await server.createSession({ title: 'many calls', message: 'hello' });
  await onPage('#/', async (page) => {
    // The demo agent uses one tool per answer; the turn is changed on its way to the page.
    const calls = ['read_file', 'run_command', 'write_file'];
    await page.route('**/turns?*', async (route) => {
      const body = await (await route.fetch()).json();
      const answer = body.turns[0].messages.find((message) => message.role === 'assistant');
      answer.content = calls.flatMap((name, n) => [
        { type: 'tool_call', id: `c${n}`, name, params: { path: `f${n}` }, status: 'completed' },
        { type: 'tool_result', tool_call_id: `c${n}`, content: `out ${n}`, is_error: n === 1 },
      ]);
      await route.fulfill({ json: body });
    });
    await listItem(page, bundle).click();
    const block = page.getByRole('region', { name: '3 tool calls' });
    await block.waitFor();
    assert.deepEqual(await block.locator('.collapsible-title code').allInnerTexts(), calls);
    await block.getByRole('button', { name: /run_command/ }).click();
    await block.getByText('out 1').waitFor();
    assert.equal(await page.locator('.row-tools').count(), 1);
  });
});
