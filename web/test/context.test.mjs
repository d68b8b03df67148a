// Turns that are kept, a context that was made shorter, pictures, and who is let in: all against the real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, model, open, PNG, said, Server, until, write } from './lab.mjs';

let chrome, server, echo;
before(async () => {
  echo = await model();
  chrome = await browser();
  const config = `[providers.demo]\nkind = "demo"\n[providers.small]\nkind = "openai"\nbase_url = "${echo.url}"\nmodel = "echo-1"\ncontext_window = 4000\n`;
  server = await Server.start(`${config}[providers.agent]\nkind = "acp"\ncommand = ["no-such-agent"]\n[defaults]\nprovider = "demo"\n`);
});
after(async () => {
  await chrome?.close();
  await server?.end();
  await echo?.end();
});

async function at(url, act) {
  const page = await open(chrome, url);
  try {
    await act(page);
    assert.deepEqual(page.mistakes, []);
  } finally {
    await page.context().close();
  }
}

const pins = async (id) => (await server.api('GET', `/sessions/${id}/pins`)).pins.map((pin) => pin.depth);

test('a turn is pinned, marked, and let go, here and elsewhere', async () => {
  const session = await server.session({ title: 'pins', message: 'keep this' });
  await server.say(session.id, 'and go on');
  await at(`${server.url}/#/s/${session.id}`, async (page) => {
    const foot = page.locator('.row-foot').first();
    await foot.getByRole('button', { name: /^Pin/ }).click();
    await foot.getByText('pinned', { exact: true }).waitFor();
    assert.deepEqual(await pins(session.id), [1]);
    await page.reload();
    await foot.getByText('pinned', { exact: true }).waitFor();
    assert.equal(await page.getByText('pinned', { exact: true }).count(), 1);
    await foot.getByRole('button', { name: /^Unpin/ }).click();
    await foot.getByText('pinned', { exact: true }).waitFor({ state: 'detached' });
    assert.deepEqual(await pins(session.id), []);
    // What another client pins is marked here without a reload.
    const { head } = await server.api('GET', `/sessions/${session.id}`);
    await server.api('POST', `/sessions/${session.id}/pins/${head}`);
    await page.locator('.row-foot').nth(1).getByText('pinned', { exact: true }).waitFor();
  });
});

test('a turn that is too long to be pinned says so where it stands', async () => {
  const session = await server.session({ title: 'too long', provider_id: 'small', message: 'many words '.repeat(500) });
  await at(`${server.url}/#/s/${session.id}`, async (page) => {
    const foot = page.locator('.row-foot');
    await foot.getByRole('button', { name: /^Pin/ }).click();
    await foot.getByRole('alert').getByText('pinned turns would have').waitFor();
    assert.equal(await foot.getByText('pinned', { exact: true }).count(), 0);
    assert.deepEqual(await pins(session.id), []);
  });
});

// R173, R177
test('the context is made shorter from the page, and a mark tells what became of it', async () => {
  const session = await server.session({ title: 'long enough', message: 'hello one' });
  for (const text of ['hello two', 'hello three', 'hello four']) await server.say(session.id, text);
  await at(`${server.url}/#/s/${session.id}`, async (page) => {
    await said(page, 'hello four');
    await page.getByRole('button', { name: 'Compact…' }).click();
    await page.getByLabel('What to keep above all').fill('the greetings');
    await page.getByRole('button', { name: 'Compact', exact: true }).click();
    const mark = page.getByRole('button', { name: /^Context shortened/ });
    await mark.waitFor();
    const { compaction } = (await server.api('GET', `/sessions/${session.id}/turns?limit=1`)).turns[0];
    assert.equal(compaction.metadata_json.focus, 'the greetings');
    const number = (count) => count.toLocaleString('en-US');
    const title = await mark.innerText();
    assert.ok(title.startsWith(`Context shortened: ${compaction.turns_summarized} turn`), title);
    assert.ok(title.includes(`${number(compaction.tokens_before)} → ${number(compaction.tokens_after)} tokens`), title);
    assert.equal(await page.locator('.mark .prose').count(), 0, 'its words are folded away');
    await mark.click();
    await page.locator('.mark').getByText('A summary by the demo agent').waitFor();
    await page.locator('.mark').getByText('It was asked for. Above all: the greetings.').waitFor();
    await page.getByRole('link', { name: 'To the last summarised turn' }).click();
    await page.locator('.row-foot.sought').waitFor();
    // Every word is still there, and the way back is one press.
    await said(page, 'hello one');
    await page.getByRole('button', { name: 'Fork before this' }).click();
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await said(page, 'hello four');
    assert.equal(await page.locator('.mark').count(), 0);
  });
});

test('where the context cannot be made shorter, the reason stands there', async () => {
  const empty = await server.api('POST', '/sessions', { title: 'nothing said' });
  const agent = await server.session({ title: 'with an agent', message: 'hello' });
  await server.api('PATCH', `/sessions/${agent.id}`, { provider_id: 'agent' });
  await at(`${server.url}/#/s/${empty.id}`, async (page) => {
    await page.getByRole('button', { name: 'Compact…' }).click();
    await page.getByRole('dialog').getByText('Nothing was said yet.').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Compact', exact: true }).isDisabled());
    await page.getByRole('button', { name: 'Leave it' }).click();
    // What an agent offers is not known before it started: the server is asked, and refuses.
    await page.goto(`${server.url}/#/s/${agent.id}`);
    await page.locator('.row-foot').waitFor();
    await page.getByRole('button', { name: 'Compact…' }).click();
    await page.getByRole('button', { name: 'Compact', exact: true }).click();
    await page.getByRole('dialog').getByRole('alert').getByText('keeps its own context and offers no way to shorten it').waitFor();
    // An agent that has said what it offers, and offers no such thing, is not asked.
    await page.route('**/api/providers', async (route) => {
      const answer = await (await route.fetch()).json();
      for (const provider of answer.providers) if (provider.id === 'agent') provider.commands = [{ name: 'review' }];
      return route.fulfill({ json: answer });
    });
    await page.getByRole('button', { name: 'Leave it' }).click();
    await page.getByRole('button', { name: 'Compact…' }).click();
    await page.getByRole('dialog').getByText('agent keeps its own context').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Compact', exact: true }).isDisabled());
  });
});

/** Attaches a picture, sends it with words, and waits until it is shown. */
async function show(page, words) {
  await page.locator('input[type=file]').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: PNG });
  await page.getByRole('list', { name: 'Attachments' }).getByText('dot.png').waitFor();
  await page.getByText('demo cannot see pictures').waitFor();
  await write(page, words);
  await page.locator('.row-foot').waitFor();
  await page.waitForFunction(() => document.querySelector('.user .picture img')?.naturalWidth === 1);
  assert.match(await page.locator('.picture img').getAttribute('src'), /^blob:/);
}

// R237
test('a picture is attached, stored, and shown from memory', () =>
  at(`${server.url}/#/new`, async (page) => {
    await show(page, 'what is this?');
    await page.reload();
    await page.waitForFunction(() => document.querySelector('.user .picture img')?.naturalWidth === 1);
    const id = decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
    const { messages } = await server.api('GET', `/sessions/${id}/messages`);
    const [words, picture] = messages[0].content;
    assert.deepEqual([words.text, picture.type, picture.media_type, picture.size], ['what is this?', 'image', 'image/png', PNG.length]);
    await page.locator('input[type=file]').setInputFiles({ name: 'x.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0xff, 0xfe, 0]) });
    await page.getByRole('alert').getByText('x.bin is neither text nor a picture').waitFor();
    // What says that it is a picture and is none is refused by the server, and kept in the field.
    await page.getByRole('textbox', { name: 'Message' }).fill('and this?');
    await page.locator('input[type=file]').setInputFiles({ name: 'no.png', mimeType: 'image/png', buffer: Buffer.from('no picture') });
    await page.getByRole('list', { name: 'Attachments' }).getByText('no.png').waitFor();
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('alert').getByText('content[1]').waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'and this?');
    // A drawing could hold scripts. The server takes none; if one came, it would not be shown.
    await page.route(/\/turns\?/, async (route) => route.fulfill({ body: (await (await route.fetch()).text()).replaceAll('image/png', 'image/svg+xml'), contentType: 'application/json' }));
    await page.reload();
    await page.getByText('a picture of the type image/svg+xml, which is not shown').waitFor();
    assert.equal(await page.locator('.picture').count(), 0);
  }));

test('off loopback a token is asked for, kept for the tab, and asked for again when it was revoked', async () => {
  const { server: far, token } = await Server.forOthers();
  try {
    await at(`${far.url}/`, async (page) => {
      const enter = async (secret) => {
        await page.getByLabel('Token').fill(secret);
        await page.getByRole('button', { name: 'Enter' }).click();
      };
      for (const wrong of ['Schlüssel →', `${token.token.slice(0, -1)}-`]) {
        await page.goto('about:blank');
        await page.goto(far.url);
        await enter(wrong);
        await page.getByText('The server does not know this token.').waitFor();
      }
      await enter(token.token);
      await page.getByText('Connected').waitFor();
      await page.goto(`${far.url}/#/new`);
      await show(page, 'slow 12');
      await said(page, 'the demo agent of ctx has no model');
      await page.reload();
      await page.waitForFunction(() => document.querySelector('.user .picture img')?.naturalWidth === 1);
      assert.equal(await page.evaluate((secret) => JSON.stringify(localStorage).includes(secret), token.token), false, 'it is kept for the tab only');
      assert.ok(!page.url().includes(token.token));
      await write(page, 'slow 400');
      await said(page, 'these words only to show');
      far.ctx('token', 'revoke', token.id);
      await page.getByRole('heading', { name: 'ctx wants a token' }).waitFor();
      // One that may only read shows everything, and what it may not do is said in place.
      await enter(far.makeToken('read').token);
      await said(page, 'slow 400');
      await write(page, 'not allowed');
      await page.locator('.composer').getByRole('alert').waitFor();
      assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'not allowed');
    });
  } finally {
    await far.end();
  }
});
