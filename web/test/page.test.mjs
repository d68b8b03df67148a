// What a person does with the page, in a real browser against a real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, model, open, said, Server, until, write } from './lab.mjs';

let chrome, server, echo;
before(async () => {
  echo = await model();
  chrome = await browser();
  server = await Server.start(`[providers.demo]\nkind = "demo"\n[providers.echo]\nkind = "openai"\nbase_url = "${echo.url}"\nmodel = "echo-1"\n[defaults]\nprovider = "demo"\n`);
});
after(async () => {
  await chrome?.close();
  await server?.end();
  await echo?.end();
});

/** A page at a place, and a check at the end that nothing went wrong in it. */
async function at(place, act, options = {}) {
  const page = await open(chrome, `${options.url ?? server.url}/${place}`, options);
  try {
    await act(page);
    assert.deepEqual(page.mistakes, []);
  } finally {
    await page.context().close();
  }
}

test('a first visit leads to a first answer', async () => {
  const fresh = await Server.start();
  try {
    await at(
      '',
      async (page) => {
        await page.getByText('No sessions yet.').waitFor();
        await write(page, 'hello there');
        await said(page, 'Hello! I am the demo agent');
        await page.locator('.row-foot').waitFor();
        await page.locator('.session.current').waitFor();
        assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0, 'Cancel is only there while it runs');
      },
      { url: fresh.url },
    );
  } finally {
    await fresh.end();
  }
});

test('a reload in the middle of an answer goes on with it', () =>
  at('#/new', async (page) => {
    await write(page, 'slow 30');
    await said(page, 'has no model');
    await page.reload();
    await said(page, 'the demo agent of ctx has no model and says');
    const { id } = await current(page);
    await until('the end', async () => (await server.api('GET', `/sessions/${id}`)).state === 'idle');
    await page.locator('.row-foot').waitFor();
    const [text, stored] = [await answer(page), await lastAnswer(id)];
    assert.equal(text, stored, 'every word once, in order');
  }));

test('a crash in the middle of an answer is said, survived, and nothing stored is lost', async () => {
  const fragile = await Server.start();
  try {
    await at(
      '#/new',
      async (page) => {
        await write(page, 'slow 200');
        await said(page, 'these words only');
        await fragile.kill('SIGKILL');
        await page.getByText('The server does not answer').waitFor();
        await fragile.start();
        await page.getByText('Connected').waitFor();
        await page.locator('.row-foot .chip').getByText('interrupted').waitFor();
        assert.match(await answer(page), /the demo agent of ctx has no model/);
        await write(page, 'are you there?');
        await said(page, 'I am the demo agent of ctx; there is no model behind me');
      },
      { url: fragile.url },
    );
  } finally {
    await fragile.end();
  }
});

// R251: Cancel is there only while it runs.
test('cancel stops the answer and keeps what was said', () =>
  at('#/new', async (page) => {
    await write(page, 'slow 300');
    await said(page, 'has no model');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.row-foot').waitFor();
    assert.match(await answer(page), /^the demo agent of ctx has no model/);
    await page.getByRole('button', { name: 'Cancel' }).waitFor({ state: 'detached' });
  }));

// R251: the composer and its answers are usable while it is suspended.
test('a permission is asked and answered, and survives a reload', () =>
  at('#/new', async (page) => {
    await write(page, 'I give no permission yet');
    await page.locator('.question').getByText('May the demo agent pretend to write demo.txt?').waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Allow once' }).waitFor();
    assert.ok(await page.getByRole('textbox', { name: 'Message' }).isEnabled());
    assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0);
    await page.getByRole('button', { name: 'Allow once' }).click();
    await said(page, 'You chose “Allow once”');
    await page.getByRole('region', { name: /Waiting/ }).waitFor({ state: 'detached' });
  }));

test('the result of a tool of the client is given in a form', async () => {
  const tools = [{ name: 'get_weather', description: 'weather', parameters: { type: 'object' } }];
  const session = await server.session({ message: { text: 'get_weather {"city": "Oslo"}', tools } });
  assert.equal((await server.api('GET', `/sessions/${session.id}`)).state, 'suspended');
  await at(`#/s/${session.id}`, async (page) => {
    const form = page.getByRole('form', { name: 'Results of tools' });
    await form.getByText('"Oslo"').waitFor();
    await form.getByLabel('Result').fill('snow <b>today</b>');
    await form.getByRole('button', { name: 'Send the result' }).click();
    await said(page, 'The tool says: snow <b>today</b>');
  });
});

test('messages wait in line, are edited, moved and withdrawn', () =>
  at('#/new', async (page) => {
    await write(page, 'slow 900');
    await said(page, 'the demo agent');
    await page.getByLabel('What to do while it is busy').selectOption('queue');
    for (const text of ['first in line', 'second in line', 'third in line']) {
      await write(page, text);
      await page.locator('.inbox li').filter({ hasText: text }).waitFor();
    }
    const texts = () => page.locator('.waiting-text').allInnerTexts();
    const item = (text) => page.locator('.inbox li').filter({ hasText: text });
    await item('third in line').getByRole('button', { name: 'Move up' }).click();
    await until('the third before the second', async () => (await texts()).join() === 'first in line,third in line,second in line');
    await item('second in line').getByRole('button', { name: 'Withdraw' }).click();
    await item('second in line').waitFor({ state: 'detached' });
    await item('first in line').getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Edit the message').fill('help');
    await page.getByRole('button', { name: 'Save' }).click();
    await until('the edited text', async () => (await texts()).join() === 'help,third in line');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await said(page, 'and I think before I answer');
    await said(page, 'You said: “third in line”');
    assert.equal(await page.locator('.row').filter({ hasText: 'second in line' }).count(), 0);
  }));

test('a fork goes its own way, is drawn, and stands beside the other', async () => {
  const session = await server.session({ title: 'the trunk', label: 'trunk', message: 'one' });
  await server.say(session.id, 'two on the trunk');
  await at(`#/s/${session.id}`, async (page) => {
    await said(page, 'two on the trunk');
    await page.locator('.row-foot').first().getByRole('button', { name: 'Fork here' }).click();
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await write(page, 'two on the branch');
    await said(page, 'You said: “two on the branch”');
    assert.equal(await page.locator('.row').filter({ hasText: 'two on the trunk' }).count(), 0);
    await page.getByRole('button', { name: 'Branches' }).click();
    await page.locator('.tree circle').nth(2).waitFor();
    await page.getByRole('link', { name: 'Compare with the trunk' }).click();
    await page.getByText('1 turn in common').waitFor();
    const pair = page.locator('.pair').nth(1).locator('.side');
    assert.match(await pair.nth(0).innerText(), /two on the branch/);
    assert.match(await pair.nth(1).innerText(), /two on the trunk/);
  });
});

// R207
test('a session is archived by a key and found again by its words', async () => {
  const session = await server.session({ title: 'about quinces', message: 'quinces are hard' });
  await at(`#/s/${session.id}`, async (page) => {
    await said(page, 'quinces are hard');
    await page.locator('.scroller').focus();
    await page.keyboard.press('e');
    await page.locator(`[data-session="${session.id}"]`).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Show archived/ }).click();
    await page.locator(`[data-session="${session.id}"]`).waitFor();
    await page.getByRole('button', { name: /^Show archived/ }).click();
    await page.keyboard.press('/');
    await page.keyboard.type('quinces hard');
    const hit = page.locator('.hits a').filter({ hasText: 'quinces are hard' }).first();
    await page.goto(`${server.url}/#/`);
    await hit.click();
    await said(page, 'quinces are hard');
    await page.locator('.bar .chip').getByText('archived').waitFor();
  });
});

test('the keys go through the list', async () => {
  await server.session({ title: 'older one', message: 'a' });
  await server.session({ title: 'newer one', message: 'b' });
  await at('', async (page) => {
    await page.locator('.session').first().getByText('newer one').waitFor();
    await page.keyboard.press('j');
    await page.locator('.session.current').getByText('newer one').waitFor();
    await page.keyboard.press('j');
    await page.locator('.session.current').getByText('older one').waitFor();
    await page.keyboard.press('k');
    await page.locator('.session.current').getByText('newer one').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog').getByText('next and previous session').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('n');
    await page.getByRole('heading', { name: 'New session' }).waitFor();
  });
});

// R251: the provider is chosen per message.
test('one message goes to another provider, and each says who answered', () =>
  at('#/new', async (page) => {
    await write(page, 'hello demo');
    await said(page, 'I am the demo agent');
    await page.locator('.row-foot').waitFor();
    await page.getByLabel('Provider of this message').selectOption('echo');
    await page.getByLabel('Model of this message').fill('echo-2');
    await write(page, 'said by **echo**');
    await page.locator('.row-text strong').getByText('echo').waitFor();
    await page.locator('.row-foot').nth(1).waitFor();
    assert.deepEqual(await page.locator('.row-head h2').allInnerTexts(), ['demo', 'echo']);
    assert.match(await page.locator('.row-head').nth(1).innerText(), /echo-2/);
    await page.locator('.row-foot').filter({ hasText: '1,200 in · 340 out' }).waitFor();
  }));

// R251: errors are in the transcript.
test('an error stands in its place and blocks nothing', () =>
  at('#/new', async (page) => {
    await write(page, 'fail late');
    await said(page, 'These are the words before the failure.');
    await page.locator('.error').getByText('The demo agent failed, because it was asked to.').waitFor();
    await write(page, 'think again');
    await said(page, 'I thought about it');
    const kinds = await page.locator('.row').evaluateAll((rows) => rows.map((row) => row.className.split('row-')[1]));
    assert.ok(kinds.indexOf('error') < kinds.lastIndexOf('user'), kinds.join());
    await page.getByRole('button', { name: /Thought/ }).click();
    await page.getByText('A demo agent has little to think about.').last().waitFor();
  }));

test('a task is confirmed and becomes a commit', async () => {
  const session = await server.session({ track_tasks: true, title: 'a task', message: 'Add a retry with a tool' });
  await at(`#/s/${session.id}`, async (page) => {
    await page.getByRole('button', { name: 'pending complete' }).click();
    const task = page.getByRole('region', { name: 'The open task' });
    await task.getByText('Add a retry with a tool').waitFor();
    await task.getByRole('button', { name: 'Confirm' }).click();
    await page.locator('.commit').getByText('done', { exact: true }).waitFor();
    await page.getByText('No task is open.').waitFor();
    await page.getByRole('button', { name: 'Reopen the last one' }).click();
    await task.getByRole('button', { name: 'Abandon' }).click();
    await page.locator('.commit').getByText('abandoned', { exact: true }).waitFor();
  });
});

test('a question about the task has two buttons', async () => {
  const session = await server.session({ track_tasks: true, title: 'asked', message: 'Add retry logic to the client, use a tool' });
  await server.say(session.id, 'also ask me about the number of attempts');
  await at(`#/s/${session.id}`, async (page) => {
    await write(page, 'New task: write the documentation for the parser');
    const card = page.getByRole('region', { name: 'A question about the task' });
    await card.getByText('You have unfinished work on: Add retry logic').waitFor();
    assert.equal(await card.getByRole('button').count(), 2);
    await card.getByRole('button', { name: 'Save and start fresh' }).click();
    await said(page, 'You said: “New task: write the documentation for the parser”');
    await card.waitFor({ state: 'detached' });
  });
});

test('a draft stays with its session, and unread answers are marked', async () => {
  const [one, two] = [await server.session({ title: 'draft one', message: 'x' }), await server.session({ title: 'draft two', message: 'y' })];
  await at(`#/s/${one.id}`, async (page) => {
    const field = page.getByRole('textbox', { name: 'Message' });
    await field.fill('not sent yet');
    await page.locator(`[data-session="${two.id}"]`).click();
    await page.getByRole('heading', { name: 'draft two' }).waitFor();
    assert.equal(await field.inputValue(), '');
    await server.say(one.id, 'news');
    await page.locator(`[data-session="${one.id}"] .unread`).waitFor();
    await page.reload();
    await page.locator(`[data-session="${one.id}"] .unread`).waitFor();
    await page.locator(`[data-session="${one.id}"]`).click();
    await said(page, 'You said: “news”');
    assert.equal(await field.inputValue(), 'not sent yet');
    await page.locator(`[data-session="${one.id}"] .unread`).waitFor({ state: 'detached' });
  });
});

test('light and dark follow the system, or what was chosen', () =>
  at('#/new', async (page) => {
    const dark = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 22, 26)');
    assert.equal(await dark(), false);
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.equal(await dark(), true);
    await page.getByRole('button', { name: 'Theme: auto' }).click();
    assert.equal(await dark(), false, 'light was chosen');
    await page.reload();
    await page.getByRole('button', { name: 'Theme: light' }).click();
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await dark(), true, 'dark was chosen');
  }));

test('a text file goes along as a fenced block', () =>
  at('#/new', async (page) => {
    await page.locator('input[type=file]').setInputFiles({ name: 'note.rs', mimeType: 'text/plain', buffer: Buffer.from('fn main() {}\n') });
    await page.getByText('note.rs').waitFor();
    await write(page, 'look at this');
    await page.locator('.user pre code').getByText('fn main() {}').waitFor();
  }));

async function current(page) {
  return { id: decodeURIComponent(new URL(page.url()).hash.split('/')[2]) };
}

const answer = async (page) => (await page.locator('.row-text').allInnerTexts()).join('\n').trim();

async function lastAnswer(id) {
  const { messages } = await server.api('GET', `/sessions/${id}/messages?order=desc&limit=1`);
  return messages[0].content.map((part) => part.text).join('').trim();
}
