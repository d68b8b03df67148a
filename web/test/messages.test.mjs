// Messages and answers: sending, streaming, cancelling, suspensions, the inbox, providers, errors.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  defaultProvider,
  DEMO,
  DEMO_CONFIG,
  launchBrowser,
  messageField,
  modelConfig,
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
  model = await startModel();
  browser = await launchBrowser();
  const echo = modelConfig('echo', model.url, 'echo-1');
  server = await Server.start(DEMO_CONFIG + echo + defaultProvider('demo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);

const shownAnswer = async (page) =>
  (await page.locator('.row-text').allInnerTexts()).join('\n').trim();

async function storedAnswer(id) {
  const path = `/sessions/${id}/messages?order=desc&limit=1`;
  const { messages } = await server.api('GET', path);
  return messages[0].content
    .map((part) => part.text)
    .join('')
    .trim();
}

test('the first message on an empty server is answered', async () => {
  const empty = await Server.start();
  const act = async (page) => {
    await page.getByText('No sessions yet.').waitFor();
    await sendMessage(page, 'hello there');
    await untilRow(page, DEMO.greeting);
    await page.locator('.row-footer').waitFor();
    await page.locator('.session.current').waitFor();
    const cancel = page.getByRole('button', { name: 'Stop', exact: true });
    assert.equal(await cancel.count(), 0, 'Cancel is shown only during a run');
  };
  try {
    await withPage(browser, `${empty.url}/`, act);
  } finally {
    await empty.end();
  }
});

test('a reload during an answer continues the answer without losing or repeating text', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 30');
    await untilRow(page, DEMO.filler);
    await page.reload();
    await untilRow(page, DEMO.fillerLater);
    const id = sessionIdOf(page);
    await server.untilState(id, 'idle');
    await page.locator('.row-footer').waitFor();
    assert.equal(await shownAnswer(page), await storedAnswer(id));
  }));

test('after a server crash the page reconnects and shows the interrupted answer', async () => {
  const crashing = await Server.start();
  const act = async (page) => {
    await sendMessage(page, 'slow 200');
    await untilRow(page, DEMO.fillerLater);
    await crashing.kill();
    await page.getByText('Cannot reach the server. Reconnecting').waitFor();
    await crashing.start();
    await page.getByText('Connected', { exact: true }).waitFor();
    await page.locator('.row-footer .chip').getByText('interrupted').waitFor();
    assert.ok((await shownAnswer(page)).includes(DEMO.filler));
    await page.locator('.error').getByText('Interrupted', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Retry', exact: true }).waitFor();
    await sendMessage(page, 'are you there?');
    await untilRow(page, DEMO.greeting);
  };
  try {
    await withPage(browser, `${crashing.url}/#/new`, act);
  } finally {
    await crashing.end();
  }
});

// R251: a run can be cancelled, with Stop, only while it lasts.
test('cancel stops the answer and keeps the text so far', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 300');
    await untilRow(page, DEMO.filler);
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.locator('.row-footer').waitFor();
    assert.ok((await shownAnswer(page)).startsWith(DEMO.filler));
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor({ state: 'detached' });
    const retry = page.getByRole('button', { name: 'Retry', exact: true });
    await retry.waitFor();
    const opacityOf = (element) => Number(getComputedStyle(element.parentElement).opacity);
    assert.equal(await retry.evaluate(opacityOf), 1, 'Retry is shown without hovering');
    await retry.click();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await retry.waitFor();
    assert.equal(await page.locator('.row-user').count(), 1);
  }));

// R251: the composer and the answers can be used while the session is suspended.
test('a permission request survives a reload and is answered', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'I give no permission yet');
    await page.locator('.question').getByText(DEMO.permission).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Allow once' }).waitFor();
    assert.ok(await messageField(page).isEnabled());
    assert.equal(await page.getByRole('button', { name: 'Stop', exact: true }).count(), 0);
    await page.getByRole('button', { name: 'Allow once' }).click();
    await untilRow(page, DEMO.chosen('Allow once'));
    await page.getByRole('region', { name: /^Waiting/ }).waitFor({ state: 'detached' });
    await page.locator('.row-footer').waitFor();
    for (const when of ['live', 'after a reload']) {
      const record = page.locator('.notice').filter({ hasText: 'Permission asked' });
      await record.locator('time').waitFor();
      const lines = (await record.locator('div').innerText()).split('\n');
      const expected = [`Permission asked: ${DEMO.permission}`, 'Allow once by the web page'];
      assert.deepEqual(lines, expected, when);
      await page.reload();
    }
  }));

test('a message that waited in the inbox shows how long', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 900');
    await untilRow(page, DEMO.filler);
    await page.getByRole('radio', { name: 'Add to queue' }).check();
    await sendMessage(page, 'next please');
    await page.locator('.inbox li').waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await untilRow(page, DEMO.quote('next please'));
    await page.locator('.row-footer').nth(1).waitFor();
    const headers = await page.locator('.user .author').allInnerTexts();
    assert.equal(headers.length, 2);
    assert.doesNotMatch(headers[0], /waited/);
    assert.match(headers[1], /waited \d+ s/);
  }));

test('the result of a client tool is entered in a form', async () => {
  const tools = [{ name: 'get_weather', description: 'weather', parameters: { type: 'object' } }];
  const message = { text: 'get_weather {"city": "Oslo"}', tools };
  const session = await server.createSession({ message });
  assert.equal((await server.api('GET', `/sessions/${session.id}`)).state, 'suspended');
  await onPage(`#/s/${session.id}`, async (page) => {
    const form = page.getByRole('form', { name: 'Tool results' });
    await form.getByText('"Oslo"').waitFor();
    await form.getByLabel('Result').fill('snow <b>today</b>');
    await form.getByRole('button', { name: 'Send result' }).click();
    await untilRow(page, DEMO.toolResult('snow <b>today</b>'));
  });
});

test('queued messages are edited, moved and removed', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 900');
    await untilRow(page, DEMO.filler);
    await page.getByRole('radio', { name: 'Add to queue' }).check();
    const item = (text) => page.locator('.inbox li').filter({ hasText: text });
    for (const text of ['first queued', 'second queued', 'third queued']) {
      await sendMessage(page, text);
      await item(text).waitFor();
    }
    const untilTexts = (expected) =>
      until(expected, async () => {
        const texts = await page.locator('.inbox-text').allInnerTexts();
        return texts.join() === expected;
      });
    await item('third queued').getByRole('button', { name: 'Move up' }).click();
    await untilTexts('first queued,third queued,second queued');
    await item('second queued').getByRole('button', { name: 'Withdraw' }).click();
    await item('second queued').waitFor({ state: 'detached' });
    await item('first queued').getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Edit message').fill('help');
    await page.getByRole('button', { name: 'Save' }).click();
    await untilTexts('help,third queued');
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await untilRow(page, DEMO.help);
    await untilRow(page, DEMO.quote('third queued'));
    assert.equal(await page.locator('.row').filter({ hasText: 'second queued' }).count(), 0);
  }));

// R251: the provider is chosen per message.
test('the provider of one message can be chosen, and each answer names its provider', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'hello demo');
    await untilRow(page, DEMO.greeting);
    await page.locator('.row-footer').waitFor();
    await page.getByLabel('Provider', { exact: true }).selectOption('echo');
    await page.getByLabel('Model', { exact: true }).selectOption('echo-2');
    await sendMessage(page, 'answered by **echo**');
    await page.locator('.row-text strong').getByText('echo').waitFor();
    await page.locator('.row-footer').nth(1).waitFor();
    assert.deepEqual(await page.locator('.row-author h2').allInnerTexts(), ['demo', 'echo']);
    assert.match(await page.locator('.row-author').nth(1).innerText(), /echo-2/);
    await page.locator('.row-footer').filter({ hasText: '1,200 in · 340 out' }).waitFor();
  }));

// R251: errors are in the transcript.
test('an error is shown in the transcript and the session can still be used', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'fail late');
    await untilRow(page, DEMO.beforeFailure);
    await page.locator('.error').getByText(DEMO.failure).waitFor();
    await sendMessage(page, 'think again');
    await untilRow(page, DEMO.afterThought);
    const kindsOf = (rows) => rows.map((row) => row.className.split('row-')[1]);
    const kinds = await page.locator('.row').evaluateAll(kindsOf);
    assert.ok(kinds.indexOf('error') < kinds.lastIndexOf('user'), kinds.join());
    await page.getByRole('button', { name: /^Thought/ }).click();
    await page.getByText(DEMO.thought).last().waitFor();
  }));

test('a text file is sent as a part of its own and shown as a chip', () =>
  onPage('#/new', async (page) => {
    const file = { name: 'note.rs', mimeType: 'text/plain', buffer: Buffer.from('fn main() {}\n') };
    await page.locator('input[type=file]').setInputFiles(file);
    await page.getByText('note.rs').waitFor();
    await sendMessage(page, 'look at this');
    await page.locator('.row-footer').waitFor();
    assert.equal(
      await page.locator('.user pre').count(),
      0,
      'the file is not poured into the text',
    );
    await page
      .locator('.user')
      .getByRole('button', { name: /note\.rs/ })
      .click();
    await page.locator('.user pre code').getByText('fn main() {}').waitFor();
  }));

test('a steering message is shown inside the answer, and no row is redrawn at the end', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 25');
    await untilRow(page, DEMO.filler.slice(0, 14));
    await page.evaluate(() =>
      document.querySelectorAll('.row').forEach((row) => (row.isOriginal = true)),
    );
    await page.getByRole('radio', { name: 'Steer' }).check();
    await sendMessage(page, 'go left');
    await untilRow(page, DEMO.steered('go left'));
    await until('both parts of the answer', async () => {
      const authors = await page.locator('.row-author h2').allInnerTexts();
      return authors.join() === 'demo,demo';
    });
    const rowClasses = () =>
      page
        .locator('.row:not(.row-busy, .row-footer)')
        .evaluateAll((rows) => rows.map((row) => row.className));
    const before = await rowClasses();
    await page.evaluate(() => {
      window.removedRows = [];
      const record = (changes) =>
        changes.forEach((change) =>
          change.removedNodes.forEach((row) => window.removedRows.push(row.className)),
        );
      const list = document.querySelector('.drawn-rows');
      new MutationObserver(record).observe(list, { childList: true });
    });
    const kinds = before.map((name) => name.split('row-')[1]);
    assert.deepEqual(kinds, ['user', 'author', 'text', 'user', 'author', 'text']);
    await page.locator('.row-footer').waitFor();
    assert.deepEqual(await rowClasses(), before);
    await page.locator('.row-busy').waitFor({ state: 'detached' });
    const removed = await page.evaluate(() => window.removedRows);
    assert.deepEqual(
      removed.filter((name) => name !== 'row row-busy'),
      [],
    );
    const countOriginal = (rows) => rows.filter((row) => row.isOriginal).length;
    const originals = await page.locator('.row').evaluateAll(countOriginal);
    assert.ok(originals >= 3, `${originals} rows are still the same elements`);
  }));

test('a message that could not be sent stays in the field and is stored once', async () => {
  const crashing = await Server.start();
  const session = await crashing.createSession({ title: 'retry', message: 'x' });
  const act = async (page) => {
    await page.locator('.row-footer').waitFor();
    await crashing.kill();
    await page.getByText('Not connected.').waitFor();
    await sendMessage(page, 'sent while offline');
    await page.getByRole('alert').getByText('Cannot reach the server.').waitFor();
    assert.equal(await messageField(page).inputValue(), 'sent while offline');
    await crashing.start();
    await page.getByText('Connected', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await untilRow(page, DEMO.quote('sent while offline'));
    const { messages } = await crashing.api('GET', `/sessions/${session.id}/messages`);
    assert.equal(messages.filter((message) => message.role === 'user').length, 2);
  };
  try {
    await withPage(browser, `${crashing.url}/#/s/${session.id}`, act);
  } finally {
    await crashing.end();
  }
});
