// The composer: delivery in words, Stop, chips, @file, models, elapsed time, context meter.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  defaultProvider,
  DEMO,
  DEMO_CONFIG,
  launchBrowser,
  messageField,
  modelConfig,
  PNG,
  sendMessage,
  Server,
  sessionIdOf,
  startModel,
  until,
  untilRow,
  withPage,
} from './harness.mjs';

let browser, server, model;
before(async () => {
  browser = await launchBrowser();
  model = await startModel({ models: ['echo-1', 'large-2'] });
  const echo = modelConfig('echo', model.url, 'echo-1', 'context_window = 20000\n');
  server = await Server.start(DEMO_CONFIG + echo + defaultProvider('demo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);

// R154, R155, R159
test('while the agent works the choice is in words, and Escape stops', () =>
  onPage('#/new', async (page) => {
    assert.equal(await page.getByRole('radio').count(), 0, 'no choice without a run');
    await sendMessage(page, 'slow 400');
    await untilRow(page, DEMO.filler);
    const labels = await page.locator('.delivery-choice label').allInnerTexts();
    assert.deepEqual(labels, ['Stop and send', 'Add to queue', 'Steer']);
    assert.ok(await page.getByRole('radio', { name: 'Stop and send' }).isChecked());
    const status = page.locator('.run-status');
    await status.getByText(/^\d+ s$/).waitFor();
    await status.getByText(/about [\d,]+ tokens/).waitFor();
    await messageField(page).focus();
    await page.keyboard.press('Escape');
    await page.locator('.row-footer .chip').getByText('cancelled').waitFor();
    await status.waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('radio').count(), 0);
  }));

test('what is typed after a click beside the field or on a choice is a message', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 600');
    await untilRow(page, DEMO.filler);
    const stop = await page.getByRole('button', { name: 'Stop', exact: true }).boundingBox();
    await page.mouse.click(stop.x - 30, stop.y + stop.height / 2);
    await page.keyboard.type('end');
    await page.getByText('Add to queue', { exact: true }).click();
    await page.waitForFunction(() => document.activeElement?.matches('.composer textarea'));
    await page.keyboard.type(' of it');
    assert.equal(await messageField(page).inputValue(), 'end of it');
    assert.ok(await page.getByRole('radio', { name: 'Add to queue' }).isChecked());
    await page.locator('.transcript, .scroller').first().click();
    await page.keyboard.press('e');
    await page.getByText('The agent is working. Stop it with Esc').waitFor();
    const { state, status } = await server.api('GET', `/sessions/${sessionIdOf(page)}`);
    assert.deepEqual([state, status], ['running', 'active']);
  }));

test('stop and send ends the answer and runs the new message next', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 600');
    await untilRow(page, DEMO.filler);
    await sendMessage(page, 'this instead');
    await untilRow(page, DEMO.quote('this instead'));
    await page.locator('.row-footer .chip').getByText('interrupted').waitFor();
  }));

test('attached files are chips with a thumbnail, and can be removed', () =>
  onPage('#/new', async (page) => {
    const files = [
      { name: 'dot.png', mimeType: 'image/png', buffer: PNG },
      { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes\nline\n') },
    ];
    await page.locator('input[type=file]').setInputFiles(files);
    const chips = page.getByRole('list', { name: 'Attachments' });
    await chips.getByText('notes.md').waitFor();
    await page.waitForFunction(() => document.querySelector('.thumbnail')?.naturalWidth === 1);
    assert.equal(await messageField(page).inputValue(), '', 'nothing is poured into the text');
    await page.getByRole('button', { name: 'Remove dot.png' }).click();
    await sendMessage(page, 'read this');
    await page
      .locator('.user')
      .getByRole('button', { name: /notes\.md/ })
      .waitFor();
    const { messages } = await server.api('GET', `/sessions/${sessionIdOf(page)}/messages`);
    assert.deepEqual(
      messages[0].content.map((part) => part.text.split('\n')[0]),
      ['read this', 'notes.md:'],
    );
  }));

test('@ offers the files of the working directory and attaches the chosen one', async () => {
  const dir = join(server.dir, 'project');
  await mkdir(join(dir, 'src'), { recursive: true });
  await writeFile(join(dir, 'src/main.rs'), 'fn main() {}\n');
  await writeFile(join(dir, 'README.md'), '# Project\n');
  const session = await server.createSession({ title: 'with files', working_dir: dir });
  await onPage(`#/s/${session.id}`, async (page) => {
    await messageField(page).pressSequentially('explain @mai');
    const list = page.getByRole('listbox', { name: 'Files' });
    await list.getByText('src/main.rs').waitFor();
    await page.keyboard.press('Enter');
    assert.equal(await messageField(page).inputValue(), 'explain @src/main.rs ');
    await page.getByRole('list', { name: 'Attachments' }).getByText('src/main.rs').waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.user').getByText('explain @src/main.rs').waitFor();
    const { messages } = await server.api('GET', `/sessions/${session.id}/messages`);
    assert.match(messages[0].content[1].text, /^src\/main\.rs:\n```rs\nfn main/);
  });
});

test('slash commands are completed with the arrow keys', async () => {
  const session = await server.createSession({ title: 'commands', message: 'hello' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await messageField(page).pressSequentially('/');
    const list = page.getByRole('listbox', { name: 'Commands' });
    await list.waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Tab');
    assert.equal(await messageField(page).inputValue(), '/done ');
    await messageField(page).fill('/');
    await list.waitFor();
    await page.keyboard.press('Escape');
    await list.waitFor({ state: 'detached' });
    assert.equal(await messageField(page).inputValue(), '/');
  });
});

test('the models are those that the provider lists', () =>
  onPage('#/new', async (page) => {
    await page.getByLabel('Provider', { exact: true }).selectOption('echo');
    const models = page.getByLabel('Model', { exact: true });
    await until('the list of the provider', async () =>
      (await models.locator('option').allInnerTexts()).includes('large-2'),
    );
    await models.selectOption('large-2');
    await sendMessage(page, 'hello');
    await page.locator('.row-author').getByText('large-2').waitFor();
  }));

test('the meter shows how full the context is, what is pinned and when it is compacted', async () => {
  const provider = { provider_id: 'echo' };
  const session = await server.createSession({ title: 'meter', message: 'hello', ...provider });
  await onPage(`#/s/${session.id}`, async (page) => {
    // The scripted model reports 1200 and 340 tokens; the window has 20,000.
    const meter = page.locator('.context-meter');
    await meter.getByText('Context 8 %').waitFor();
    const pin = page.getByRole('button', { name: 'Pin: keep this turn in every request' });
    await pin.click();
    await meter.getByText('1 pinned').waitFor();
    await meter.getByRole('button').click();
    const text = await meter.locator('p').innerText();
    assert.match(text, /1,540 of 20,000 tokens/);
    assert.match(text, /above 17,000 tokens \(85 %\)/);
    assert.match(text, /1 pinned turn is always sent in full/);
  });
});
