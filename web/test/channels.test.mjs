// People with their addresses and sessions, the details of a session, and deliveries to channels.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  channelConfig,
  DEMO,
  DM_POLICIES,
  launchBrowser,
  Server,
  startChannel,
  until,
  untilRow,
  withPage,
} from './harness.mjs';

const MARKUP = '<img src=x onerror="window.hit=1">';

let browser, server, channel;
before(async () => {
  browser = await launchBrowser();
  channel = await startChannel(204);
  server = await Server.start(channelConfig('irc', channel.url), null, DM_POLICIES);
});
after(async () => {
  await browser?.close();
  await server?.end();
  await channel?.end();
});

const onPage = (hash, act, options) => withPage(browser, `${server.url}/${hash}`, act, options);
const card = (page, name) =>
  page.locator('.entity').filter({ has: page.getByRole('link', { name, exact: true }) });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const addEntity = (name, more = {}) => server.api('POST', '/entities', { name, ...more });
const link = (entity, channel, sender_id, more = {}) =>
  server.api('POST', `/entities/${entity.id}/identities`, { channel, sender_id, ...more });
const deliveries = async (query) => (await server.api('GET', `/outbox?${query}`)).deliveries;

test('without people and deliveries the views say how to get some', () =>
  onPage('', async (page) => {
    await page.getByRole('link', { name: 'People' }).click();
    await page.getByText('ctx entity add').waitFor();
    await page.getByRole('link', { name: 'Deliveries' }).click();
    await page.getByText('No deliveries yet.').waitFor();
    await page.getByRole('link', { name: 'Failed', exact: true }).click();
    await page.getByText('No deliveries are failed.').waitFor();
  }));

test('a person is added and an address linked, shown and unlinked', () =>
  onPage('#/commits', async (page) => {
    await page.getByRole('heading', { name: 'Commits' }).waitFor();
    await page.keyboard.press('p');
    await page.getByText('Add a person, agent or service').click();
    await page.getByLabel('Name').fill('Mom');
    await page.getByLabel('Relationship').fill('family');
    await page.getByLabel('Owner of this store').check();
    await button(page, 'Add').click();
    const mom = card(page, 'Mom');
    for (const text of ['person', 'family', 'owner'])
      await mom.locator('h2').getByText(text, { exact: true }).waitFor();
    await mom.getByText('No addresses.').waitFor();
    await mom.getByText('No direct messages yet.').waitFor();

    const mallory = card(page, 'Mallory');
    const fillIn = async (entity) => {
      await entity.getByText('Link an address').click();
      await entity.getByLabel('Channel', { exact: true }).fill('irc');
      await entity.getByLabel('Account').fill('bot 2');
      await entity.getByLabel('Sender id').fill('mom&x=1/2');
    };
    await fillIn(mom);
    await mom.getByLabel('Verified').uncheck();
    await button(mom, 'Link').click();
    const address = (entity) => entity.locator('li').filter({ hasText: 'mom&x=1/2' });
    await address(mom).getByText('claimed', { exact: true }).waitFor();
    assert.match(await address(mom).innerText(), /irc \/ bot 2/);

    // A claimed address moves to the next one who claims it; a verified one does not.
    await page.getByLabel('Name').fill('Mallory');
    await button(page, 'Add').click();
    await fillIn(mallory);
    await mallory.getByLabel('Verified').uncheck();
    await button(mallory, 'Link').click();
    await address(mallory).waitFor();
    await mom.getByText('No addresses.').waitFor();
    await page.reload();
    await fillIn(mom);
    await button(mom, 'Link').click();
    await address(mom).getByText('verified', { exact: true }).waitFor();
    await mallory.getByText('No addresses.').waitFor();
    await fillIn(mallory);
    await button(mallory, 'Link').click();
    // The error is the server's, with its hint.
    assert.match(await mallory.getByRole('alert').innerText(), /merge the two entities/);

    const { entities } = await server.api('GET', '/entities');
    const stored = entities.map(({ name, owner, identities }) => [name, owner, identities.length]);
    assert.deepEqual(stored, [
      ['Mom', true, 1],
      ['Mallory', false, 0],
    ]);
    await button(mom, 'Unlink irc mom&x=1/2').click();
    await button(mom, 'Keep').click();
    await button(mom, 'Unlink irc mom&x=1/2').click();
    await button(mom, 'Unlink this address').click();
    await mom.getByText('No addresses.').waitFor();
    assert.deepEqual((await server.api('GET', '/entities/Mom')).identities, []);
  }));

// R138–R140
test('two people are merged after a confirmation that names the sessions', async () => {
  const [ann, anna] = [await addEntity('Ann'), await addEntity('Anna')];
  await link(ann, 'irc', 'ann');
  await link(anna, 'irc', 'anna');
  const long = await server.receive('irc', 'ann', 'one');
  await server.receive('irc', 'ann', 'two');
  const short = await server.receive('irc', 'anna', 'short');
  await onPage(`#/people`, async (page) => {
    await card(page, 'Anna').getByRole('link', { name: short.title }).waitFor();
    await button(card(page, 'Anna'), 'Merge another one into this…').click();
    const dialog = page.getByRole('dialog');
    assert.ok(await button(dialog, 'Merge').isDisabled(), 'nothing is chosen');
    await dialog.getByRole('combobox').selectOption({ label: 'Ann (person, irc ann)' });
    await dialog.getByText('the one with more turns receives the messages of both').waitFor();
    await dialog.getByText(long.label).waitFor();
    await dialog.getByText(short.label).waitFor();
    await button(dialog, 'Cancel').click();
    assert.equal((await server.api('GET', `/entities/${ann.id}`)).merged_into, null);

    await button(card(page, 'Anna'), 'Merge another one into this…').click();
    await dialog.getByRole('combobox').selectOption({ label: 'Ann (person, irc ann)' });
    await button(dialog, 'Merge').click();
    await card(page, 'Ann').waitFor({ state: 'detached' });
    await card(page, 'Anna').getByText('ann', { exact: true }).waitFor();
    const line = card(page, 'Anna').locator('li').filter({ hasText: short.title });
    await line.getByText('merged', { exact: true }).waitFor();

    // The session that lost names the other one, in its header and in its details.
    await line.getByRole('link').click();
    await page.getByRole('link', { name: 'merged', exact: true }).waitFor();
    await untilRow(page, DEMO.quote('short'));
    await page.keyboard.press('i');
    const panel = page.getByRole('complementary', { name: 'Details' });
    await panel.getByText(`${short.label}~merged`).waitFor();
    await panel.getByText('known-dm').waitFor();
    await panel.getByRole('link', { name: long.label }).click();
    await untilRow(page, DEMO.quote('two'));
    // It has the old label of the other one as an alias, and belongs to the merged person.
    await panel.getByText('identity merge').waitFor();
    await panel.getByText(short.label, { exact: true }).waitFor();
    await panel.getByRole('link', { name: 'Anna' }).click();
    await card(page, 'Anna').getByRole('link', { name: long.title }).waitFor();
    assert.equal(await page.locator('.entity').count(), 1);
  });
  // The entity that was merged still has its address.
  await onPage(`#/people/${ann.id}`, async (page) => {
    await page.getByRole('link', { name: 'another one' }).click();
    await card(page, 'Anna').waitFor();
  });
});

test('a session without a policy has details too, and a missing person is an error', async () => {
  const session = await server.createSession({ label: 'plain', message: 'hello' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await button(page, 'Details (i)').click();
    await page.getByText('not by a message from a channel').waitFor();
    await page.getByRole('link', { name: 'Deliveries of this session' }).click();
    await page.getByText('Only deliveries of').waitFor();
    await page.getByText('No deliveries yet.').waitFor();
  });
  await onPage('#/people/nobody', (page) =>
    page.getByRole('alert').filter({ hasText: 'entity' }).waitFor(),
  );
});

test('a failed delivery is marked, listed with its error and retried', async () => {
  channel.status = 410;
  const session = await server.receive('irc', 'late', 'are you there');
  await until('it is dead', async () => (await deliveries('status=dead')).length === 1);
  await onPage('', async (page) => {
    await page.getByRole('link', { name: 'Deliveries ! some failed' }).waitFor();
    await page.keyboard.press('d');
    await page.getByRole('link', { name: 'Failed first' }).click();
    const first = page.locator('.delivery').first();
    assert.match(await first.locator('h2').innerText(), /irc →\s+late/);
    await first.getByText('failed', { exact: true }).waitFor();
    await first.getByText('1 attempt').waitFor();
    await first.locator('.error-message').getByText('410').waitFor();
    await first.getByText(DEMO.quote('are you there')).waitFor();
    await first.getByRole('link', { name: session.label }).waitFor();
    await page.locator('.delivery').nth(1).getByText('delivered', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Failed', exact: true }).click();
    await page.locator('.delivery').nth(1).waitFor({ state: 'detached' });
    // It fails again, and then succeeds.
    const retry = button(page.locator('.delivery'), 'Retry');
    await retry.click();
    await until(
      'it is tried again',
      () => channel.received.at(-2)?.text === channel.received.at(-1)?.text,
    );
    await retry.waitFor();
    channel.status = 204;
    await retry.click();
    await page.locator('.delivery').getByText('delivered', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Deliveries', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Failed', exact: true }).click();
  });
});

test('a retry that is not possible any more shows the error of the server', async () => {
  channel.status = 410;
  await server.receive('irc', 'twice', 'one of two tabs');
  const isOurs = ({ to }) => to.peer_id === 'twice';
  const dead = await until('it is dead', async () =>
    (await deliveries('status=dead')).find(isOurs),
  );
  channel.status = 204;
  await onPage('#/deliveries/dead', async (page) => {
    const item = page.locator(`[data-delivery="${dead.id}"]`);
    await item.waitFor();
    await server.api('POST', `/outbox/${dead.id}/retry`);
    await until('it is delivered', async () => (await deliveries('status=delivered')).some(isOurs));
    await button(item, 'Retry').click();
    await item.getByRole('alert').getByText(/dead/).waitFor();
  });
});

test('a delivery to a channel without configuration says what is missing', async () => {
  await server.receive('matrix', 'someone', 'hello');
  await onPage('#/deliveries/pending', (page) =>
    page.getByText('[channels.matrix] is not in ctx.toml').waitFor(),
  );
});

test('names and addresses with markup are shown as text', async () => {
  channel.status = 204;
  const entity = await addEntity(MARKUP, { relationship: MARKUP });
  await link(entity, 'irc', MARKUP, { account_id: MARKUP });
  await link(entity, 'irc', MARKUP);
  const other = await addEntity(`other ${MARKUP}`);
  const session = await server.receive('irc', MARKUP, MARKUP);
  await until('it is delivered', async () =>
    (await deliveries('status=delivered')).some(({ to }) => to.peer_id === MARKUP),
  );
  await onPage(`#/people`, async (page) => {
    await page.locator('.sender').getByText(MARKUP).first().waitFor();
    await button(card(page, MARKUP), 'Merge another one into this…').click();
    await page.getByRole('dialog').getByRole('combobox').selectOption(other.id);
    await page.getByRole('dialog').getByText('no longer listed').waitFor();
    await button(page.getByRole('dialog'), 'Cancel').click();
    await page.goto(`${server.url}/#/deliveries`);
    await page.locator('.delivery h2').getByText(MARKUP).waitFor();
    await page.goto(`${server.url}/#/s/${session.id}`);
    await page.keyboard.press('i');
    await page.getByRole('complementary').getByRole('link', { name: MARKUP }).waitFor();
    const shown = await page.evaluate(() => [window.hit, document.querySelectorAll('img').length]);
    assert.deepEqual(shown, [undefined, 1], 'no code ran, and the only image is the icon');
  });
});

test('a view that cannot be loaded offers to reload the page', () =>
  onPage('', async (page) => {
    await page.getByText('Connected', { exact: true }).waitFor();
    const isBlocked = (url) => url.pathname.startsWith('/assets/more-views');
    await page.route(isBlocked, (route) => route.abort());
    await page.getByRole('link', { name: 'People' }).click();
    await page.getByText('Cannot load this part of the page.').waitFor();
    await page.unroute(isBlocked);
    await button(page, 'Reload the page').click();
    await page.getByRole('heading', { name: 'People' }).waitFor();
  }));
