// What happens at the edges: readers who scroll away, heads that move back, things that other parts of ctx make.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, open, said, Server, until, write } from './lab.mjs';

let chrome, server;
before(async () => {
  chrome = await browser();
  server = await Server.start();
});
after(async () => {
  await chrome?.close();
  await server?.end();
});

async function at(place, act) {
  const page = await open(chrome, `${server.url}/${place}`);
  try {
    await act(page);
    assert.deepEqual(page.mistakes, []);
  } finally {
    await page.context().close();
  }
}

const settled = (id, state = 'idle') => until(state, async () => (await server.api('GET', `/sessions/${id}`)).state === state);

test('a reader who scrolled up stays there while words come', async () => {
  const session = await server.session({ title: 'scroll', message: 'long 2000' });
  await at(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-foot').waitFor();
    await write(page, 'slow 30');
    await said(page, 'the demo agent of ctx has no model');
    const place = () =>
      page.evaluate(() => {
        const top = document.querySelector('.scroller').getBoundingClientRect().top;
        const row = [...document.querySelectorAll('.row')].find((row) => row.getBoundingClientRect().bottom > top + 5);
        return `${row.dataset.key} ${Math.round(row.getBoundingClientRect().top - top)}`;
      });
    await page.locator('.scroller').evaluate((box) => (box.scrollTop -= 500));
    await page.getByRole('button', { name: 'To the answer' }).waitFor();
    const before = await place();
    await settled(session.id);
    await page.getByRole('button', { name: 'To the end' }).waitFor();
    assert.equal(await place(), before);
    await page.getByRole('button', { name: 'To the end' }).click();
    await page.getByRole('button', { name: 'To the end' }).waitFor({ state: 'detached' });
  });
});

test('what is said into an answer stands in it, and nothing flickers when it ends', () =>
  at('#/new', async (page) => {
    await write(page, 'slow 25');
    await said(page, 'the demo agent');
    await page.evaluate(() => document.querySelectorAll('.row').forEach((row) => (row.kept = true)));
    await page.getByLabel('What to do while it is busy').selectOption('steer');
    await write(page, 'go left');
    await said(page, '(You say “go left” while I speak.');
    await until('both stretches', async () => (await page.locator('.row-head h2').allInnerTexts()).join() === 'demo,demo');
    const rows = () => page.locator('.row:not(.row-busy, .row-foot)').evaluateAll((rows) => rows.map((row) => row.className));
    const before = await rows();
    await page.evaluate(() => {
      window.gone = [];
      const note = (changes) => changes.forEach((change) => change.removedNodes.forEach((row) => window.gone.push(row.className)));
      new MutationObserver(note).observe(document.querySelector('.shown'), { childList: true });
    });
    assert.deepEqual(before.map((name) => name.split('row-')[1]), ['user', 'head', 'text', 'user', 'head', 'text']);
    await page.locator('.row-foot').waitFor();
    assert.deepEqual(await rows(), before);
    await page.locator('.row-busy').waitFor({ state: 'detached' });
    const gone = await page.evaluate(() => window.gone);
    assert.deepEqual(gone.filter((name) => name !== 'row row-busy'), [], 'no row was taken away and put back');
    const kept = await page.locator('.row').evaluateAll((rows) => rows.filter((row) => row.kept).length);
    assert.ok(kept >= 3, `${kept} rows are the very same elements`);
  }));

test('twenty thousand words come and the page stays alive', async () => {
  const session = await server.session({ title: 'many words', message: 'hello' });
  await at(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-foot').waitFor();
    await write(page, 'long 20000');
    await page.locator('.row-foot').nth(0).waitFor();
    await settled(session.id);
    await page.locator('.row-foot').last().waitFor();
    const tenFrames = async () => {
      const began = performance.now();
      for (let n = 0; n < 10; n++) await new Promise(requestAnimationFrame);
      return performance.now() - began;
    };
    await until('ten frames in a second', async () => (await page.evaluate(tenFrames)) < 1000);
    assert.ok((await page.evaluate(() => document.getElementsByTagName('*').length)) < 2000);
  });
});

test('the head goes back, and the last message runs again', async () => {
  const session = await server.session({ title: 'back', message: 'one' });
  await server.say(session.id, 'two');
  await at(`#/s/${session.id}`, async (page) => {
    await said(page, 'You said: “two”');
    await page.locator('.row-foot').first().getByRole('button', { name: 'Rewind to here' }).click();
    await page.locator('.row').filter({ hasText: 'You said: “two”' }).first().waitFor({ state: 'detached' });
    await write(page, 'another two');
    await said(page, 'You said: “another two”');
    await page.locator('.row-foot').nth(1).getByRole('button', { name: 'Run the last message again' }).click();
    await until('a second try', async () => (await server.api('GET', `/sessions/${session.id}/tree`)).turns.length === 4);
    await settled(session.id);
    await said(page, 'You said: “another two”');
    assert.equal(await page.locator('.row-user').filter({ hasText: 'another two' }).count(), 1);
  });
});

test('a session is deleted only after a second word', async () => {
  const session = await server.session({ title: 'to be deleted', message: 'x' });
  await at(`#/s/${session.id}`, async (page) => {
    await page.getByRole('button', { name: 'Delete for good…' }).click();
    await page.getByRole('button', { name: 'Keep it' }).click();
    await page.getByRole('button', { name: 'Delete for good…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.locator(`[data-session="${session.id}"]`).waitFor({ state: 'detached' });
    assert.equal((await fetch(`${server.url}/api/sessions/${session.id}`)).status, 404);
  });
});

test('a message that cannot be sent is still there, and is sent once', async () => {
  const flaky = await Server.start();
  const session = await flaky.session({ title: 'flaky', message: 'x' });
  const page = await open(chrome, `${flaky.url}/#/s/${session.id}`);
  try {
    await page.locator('.row-foot').waitFor();
    await flaky.kill();
    await page.getByText('Not connected.').waitFor();
    await write(page, 'sent in the dark');
    await page.getByRole('alert').getByText('The server does not answer.').waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'sent in the dark');
    await flaky.start();
    await page.getByText('Connected').waitFor();
    await page.getByRole('button', { name: 'Send' }).click();
    await said(page, 'You said: “sent in the dark”');
    const { messages } = await flaky.api('GET', `/sessions/${session.id}/messages`);
    assert.equal(messages.filter((message) => message.role === 'user').length, 2);
  } finally {
    await page.context().close();
    await flaky.end();
  }
});
