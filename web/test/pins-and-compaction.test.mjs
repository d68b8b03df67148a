// Pinned turns and compaction of the context window.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  defaultProvider,
  DEMO,
  DEMO_CONFIG,
  launchBrowser,
  openMenu,
  modelConfig,
  Server,
  startModel,
  untilRow,
  withPage,
} from './harness.mjs';

const AGENT_CONFIG = '[providers.agent]\nkind = "acp"\ncommand = ["no-such-agent"]\n';

let browser, server, model;
before(async () => {
  model = await startModel();
  browser = await launchBrowser();
  const small = modelConfig('small', model.url, 'echo-1', 'context_window = 4000\n');
  server = await Server.start(DEMO_CONFIG + small + AGENT_CONFIG + defaultProvider('demo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);

const pinnedDepths = async (id) =>
  (await server.api('GET', `/sessions/${id}/pins`)).pins.map((pin) => pin.depth);

test('a turn is pinned and unpinned, and pins of other clients are shown', async () => {
  const session = await server.createSession({ title: 'pins', message: 'keep this' });
  await server.send(session.id, 'and go on');
  await onPage(`#/s/${session.id}`, async (page) => {
    const footer = page.locator('.row-footer').first();
    const pinned = footer.getByText('pinned', { exact: true });
    await footer.getByRole('button', { name: /^Pin/ }).click();
    await pinned.waitFor();
    assert.deepEqual(await pinnedDepths(session.id), [1]);
    await page.reload();
    await pinned.waitFor();
    assert.equal(await page.getByText('pinned', { exact: true }).count(), 1);
    await footer.getByRole('button', { name: 'Unpin' }).click();
    await pinned.waitFor({ state: 'detached' });
    assert.deepEqual(await pinnedDepths(session.id), []);
    const { head } = await server.api('GET', `/sessions/${session.id}`);
    await server.api('POST', `/sessions/${session.id}/pins/${head}`);
    await page.locator('.row-footer').nth(1).getByText('pinned', { exact: true }).waitFor();
  });
});

test('a turn that is too long to be pinned shows an error in its footer', async () => {
  const message = 'many words '.repeat(500);
  const body = { title: 'too long', provider_id: 'small', message };
  const session = await server.createSession(body);
  await onPage(`#/s/${session.id}`, async (page) => {
    const footer = page.locator('.row-footer');
    await footer.getByRole('button', { name: /^Pin/ }).click();
    await footer
      .getByRole('alert')
      .getByText(/pinned .*tokens/)
      .waitFor();
    assert.equal(await footer.getByText('pinned', { exact: true }).count(), 0);
    assert.deepEqual(await pinnedDepths(session.id), []);
  });
});

// R173, R177
test('the context is compacted, and the marker shows the savings and the summary', async () => {
  const session = await server.createSession({ title: 'long enough', message: 'hello one' });
  for (const text of ['hello two', 'hello three', 'hello four']) {
    await server.send(session.id, text);
  }
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, 'hello four');
    await openMenu(page, 'Compact…');
    await page.getByLabel('Focus of the summary').fill('the greetings');
    await page.getByRole('button', { name: 'Compact', exact: true }).click();
    const title = page.getByRole('button', { name: /^Context compacted/ });
    await title.waitFor();
    const { turns } = await server.api('GET', `/sessions/${session.id}/turns?limit=1`);
    const { compaction } = turns[0];
    assert.equal(compaction.metadata_json.focus, 'the greetings');
    const format = (count) => count.toLocaleString('en-US');
    const text = await title.innerText();
    assert.ok(text.startsWith(`Context compacted: ${compaction.turns_summarized} turn`), text);
    const tokens = `${format(compaction.tokens_before)} → ${format(compaction.tokens_after)} tokens`;
    assert.ok(text.includes(tokens), text);
    const marker = page.locator('.compaction-marker');
    assert.equal(await marker.locator('.prose').count(), 0, 'the summary is collapsed');
    await title.click();
    await marker.getByText(DEMO.summary).waitFor();
    await marker.getByText('Requested by the user. Focus: the greetings.').waitFor();
    await page.getByRole('link', { name: 'Go to the last summarized turn' }).click();
    await page.locator('.row-footer.target').waitFor();
    // The summarized turns are still there.
    await untilRow(page, 'hello one');
    // By keyboard: the list can move by some pixels while it returns to its end.
    await page.getByRole('button', { name: 'Fork before this' }).press('Enter');
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await untilRow(page, 'hello four');
    assert.equal(await marker.count(), 0);
  });
});

test('the dialog shows why a session cannot be compacted', async () => {
  const empty = await server.api('POST', '/sessions', { title: 'no messages' });
  const agent = await server.createSession({ title: 'with an agent', message: 'hello' });
  await server.api('PATCH', `/sessions/${agent.id}`, { provider_id: 'agent' });
  await onPage(`#/s/${empty.id}`, async (page) => {
    const open = { click: () => openMenu(page, 'Compact…') };
    const confirm = page.getByRole('button', { name: 'Compact', exact: true });
    const dialog = page.getByRole('dialog');
    const cancel = dialog.getByRole('button', { name: 'Cancel' });
    await open.click();
    await dialog.getByText('This session has no messages yet.').waitFor();
    assert.ok(await confirm.isDisabled());
    await cancel.click();
    // The commands of an agent are unknown before it starts, so the server decides and refuses.
    await page.goto(`${server.url}/#/s/${agent.id}`);
    await page.locator('.row-footer').waitFor();
    await open.click();
    await confirm.click();
    await dialog
      .getByRole('alert')
      .getByText(/context/)
      .waitFor();
    // An agent that has reported its commands, without a compact command, is not asked.
    await page.route('**/api/providers', async (route) => {
      const body = await (await route.fetch()).json();
      const provider = body.providers.find((one) => one.id === 'agent');
      provider.commands = [{ name: 'review' }];
      return route.fulfill({ json: body });
    });
    await cancel.click();
    await open.click();
    await page.getByRole('button', { name: 'Compact', exact: true, disabled: true }).waitFor();
    await dialog.locator('.hint', { hasText: 'agent manages its own context' }).waitFor();
  });
});
