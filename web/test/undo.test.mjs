// Undo: rewind, archive, withdraw, seal, delete; edit and resend; retry on an error.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkView } from './axe-check.mjs';
import {
  DEMO,
  launchBrowser,
  messageField,
  openMenu,
  sendImage,
  sendMessage,
  Server,
  sessionIdOf,
  until,
  untilImageShown,
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
const undo = (page) => page.locator('.toast').last().getByRole('button', { name: 'Undo' }).click();

test('a rewind is undone: the head is the old one again', async () => {
  const session = await server.createSession({ title: 'rewound', message: 'one' });
  await server.send(session.id, 'two');
  const { head } = await server.api('GET', `/sessions/${session.id}`);
  await onPage(`#/s/${session.id}`, async (page) => {
    const second = page
      .locator('.row')
      .filter({ hasText: DEMO.quote('two') })
      .first();
    await second.waitFor();
    const footer = page.locator('.row-footer').first();
    await footer.getByRole('button', { name: 'Rewind to here' }).click();
    await second.waitFor({ state: 'detached' });
    await page.locator('.toast').getByText('Moved back to turn 1').waitFor();
    await undo(page);
    await second.waitFor();
    assert.equal((await server.api('GET', `/sessions/${session.id}`)).head, head);
  });
});

/** A session of three turns, rewound to the first one. */
async function rewoundSession(title) {
  const session = await server.createSession({ title, message: 'one' });
  for (const text of ['two about pelicans', 'three']) await server.send(session.id, text);
  const { turns } = await server.api('GET', `/sessions/${session.id}/turns?order=asc`);
  await server.api('POST', `/sessions/${session.id}/rewind`, { turn_id: turns[0].id });
  return { session, turns };
}
const headOf = async ({ id }) => (await server.api('GET', `/sessions/${id}`)).head;
const rowWith = (page, text) => page.locator('.row').filter({ hasText: text }).first();

test('z undoes also when the toast is gone, and says when there is nothing to undo', async () => {
  const session = await server.createSession({ title: 'late', message: 'one' });
  await server.send(session.id, 'two');
  const head = await headOf(session);
  await withPage(browser, 'about:blank', async (page) => {
    await page.clock.install();
    await page.goto(`${server.url}/#/s/${session.id}`);
    const toast = page.locator('.toast');
    await rowWith(page, DEMO.quote('two')).waitFor();
    await page.locator('.scroller').focus();
    await page.keyboard.press('z');
    await toast.getByText('Nothing to undo.').waitFor();
    await page
      .locator('.row-footer')
      .first()
      .getByRole('button', { name: 'Rewind to here' })
      .click();
    await rowWith(page, DEMO.quote('two')).waitFor({ state: 'detached' });
    await page.locator('.scroller').focus();
    await page.keyboard.press('e');
    await toast.getByText('Archived “late”.').waitFor();
    await page.mouse.move(700, 300);
    await page.clock.fastForward(60_000);
    await toast.first().waitFor({ state: 'detached' });
    await page.keyboard.press('z');
    await toast.getByText('“late” is not archived any more.').waitFor();
    await page.keyboard.press('z');
    await toast.getByText('The later turns of “late” are restored.').waitFor();
    await rowWith(page, DEMO.quote('two')).waitFor();
    assert.equal(await headOf(session), head);
    await page.keyboard.press('z');
    await toast.getByText('Nothing to undo.').waitFor();
  });
});

test('rewound turns are in the branches panel, can be read and restored', async () => {
  const { session, turns } = await rewoundSession('went back');
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await page.getByRole('button', { name: 'Branches' }).click();
    const entry = page.locator('.tree li').filter({ hasText: 'rewound' });
    await entry.getByText('2 turns').waitFor();
    await entry.getByRole('link', { name: 'two about pelicans' }).click();
    await page.getByText('2 rewound turns').waitFor();
    await rowWith(page, DEMO.quote('three')).waitFor();
    await page.getByRole('link', { name: 'Back to the conversation' }).click();
    await rowWith(page, DEMO.quote('one')).waitFor();
    await entry.getByRole('button', { name: 'Restore' }).click();
    await rowWith(page, DEMO.quote('three')).waitFor();
    assert.equal(await headOf(session), turns[2].id);
    await entry.waitFor({ state: 'detached' });
    await undo(page);
    await entry.waitFor();
    assert.equal(await headOf(session), turns[0].id);
  });
});

test('rewound turns return also after the conversation went on, and a fork continues them', async () => {
  const { session, turns } = await rewoundSession('went on');
  await server.send(session.id, 'another two');
  const newer = await headOf(session);
  await onPage(`#/s/${session.id}/turn/${turns[1].id}`, async (page) => {
    await page.getByText('2 rewound turns').waitFor();
    await page.getByRole('button', { name: 'Restore' }).click();
    await page.locator('.toast').getByText('Restored 2 turns.').waitFor();
    await rowWith(page, DEMO.quote('three')).waitFor();
    assert.equal(await headOf(session), turns[2].id);
    await undo(page);
    await rowWith(page, DEMO.quote('another two')).waitFor();
    assert.equal(await headOf(session), newer);
    await page.goto(`${server.url}/#/s/${session.id}/turn/${turns[2].id}`);
    await page.getByRole('button', { name: 'Continue them in a fork' }).click();
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await rowWith(page, DEMO.quote('three')).waitFor();
    const fork = await server.api('GET', `/sessions/${sessionIdOf(page)}`);
    assert.deepEqual([fork.head, fork.turn_count], [turns[2].id, 3]);
  });
});

test('a search hit in a rewound turn opens there, with its word marked', async () => {
  await rewoundSession('found again');
  await onPage('', async (page) => {
    await page.locator('.session').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('pelican');
    const hits = page.locator('.search-hits');
    const group = hits.getByRole('heading', { name: 'found again' });
    await group.waitFor();
    await hits.locator('h3:text("found again") + ul a').first().click();
    await page.getByText('2 rewound turns').waitFor();
    await rowWith(page, 'two about pelicans').waitFor();
    const marked = () =>
      page.evaluate(() => [...(CSS.highlights.get('found') ?? [])].map(String).join());
    await until('the word is marked', async () => (await marked()) === 'pelicans');
    // New leaves the search behind.
    await page.getByRole('link', { name: 'New', exact: true }).click();
    await hits.waitFor({ state: 'detached' });
    assert.equal(await page.locator('#search').inputValue(), '');
  });
});

test('axe finds no violations in rewound turns and in their entry', async () => {
  const { session, turns } = await rewoundSession('checked');
  const url = `${server.url}/#/s/${session.id}`;
  await checkView(browser, 'rewound turns', `${url}/turn/${turns[1].id}`, (page) =>
    page.getByRole('button', { name: 'Restore' }).waitFor(),
  );
  await checkView(browser, 'rewound entry', url, async (page) => {
    await page.locator('.row-footer').waitFor();
    await page.keyboard.press('b');
    await page.getByRole('button', { name: 'Restore' }).waitFor();
  });
});

test('archiving is undone from the toast and with a key', async () => {
  const session = await server.createSession({ title: 'put away', message: 'x' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await openMenu(page, 'Archive');
    await listItem(page, session).waitFor({ state: 'detached' });
    await undo(page);
    await listItem(page, session).waitFor();
    await page.locator('.scroller').focus();
    await page.keyboard.press('e');
    await listItem(page, session).waitFor({ state: 'detached' });
    await page.keyboard.press('z');
    await listItem(page, session).waitFor();
    assert.equal((await server.api('GET', `/sessions/${session.id}`)).status, 'active');
  });
});

test('a withdrawn message returns to its place in the queue', () =>
  onPage('#/new', async (page) => {
    await sendMessage(page, 'slow 900');
    await untilRow(page, DEMO.filler);
    await page.getByRole('radio', { name: 'Add to queue' }).check();
    const item = (text) => page.locator('.inbox li').filter({ hasText: text });
    for (const text of ['first', 'second', 'third']) {
      await sendMessage(page, text);
      await item(text).waitFor();
    }
    await item('second').getByRole('button', { name: 'Withdraw' }).click();
    await item('second').waitFor({ state: 'detached' });
    await undo(page);
    await until('the old order', async () => {
      const texts = await page.locator('.inbox-text').allInnerTexts();
      return texts.join() === 'first,second,third';
    });
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
  }));

test('a sealed task is reopened', async () => {
  const work = { title: 'task', track_tasks: true, message: 'Add a retry with a tool' };
  const session = await server.createSession(work);
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.finished').getByRole('button', { name: 'Confirm' }).click();
    await page.locator('.toast').getByText('The task was sealed').waitFor();
    await undo(page);
    const { task } = await until('an open task', async () => {
      const found = await server.api('GET', `/sessions/${session.id}`);
      return found.task && found;
    });
    assert.equal(task.description, 'Add a retry with a tool');
    await page.locator('.notice').getByText('reopened').waitFor();
  });
});

test('deleting waits ten seconds: Undo keeps the session, so does leaving the page', async () => {
  const session = await server.createSession({ title: 'to be deleted', message: 'x' });
  const status = async () => (await fetch(`${server.url}/api/sessions/${session.id}`)).status;
  await withPage(browser, 'about:blank', async (page) => {
    await page.clock.install();
    await page.goto(`${server.url}/#/s/${session.id}`);
    await page.locator('.row-footer').waitFor();
    await openMenu(page, 'Delete…');
    const toast = page.locator('.toast').getByText('will be deleted for good in 10 seconds');
    await toast.waitFor();
    await listItem(page, session).waitFor({ state: 'detached' });
    await undo(page);
    await listItem(page, session).click();
    await openMenu(page, 'Delete…');
    await toast.waitFor();
    await page.reload();
    await listItem(page, session).click();
    assert.equal(await status(), 200, 'nothing was sent');
    await openMenu(page, 'Delete…');
    await toast.waitFor();
    await page.clock.fastForward(9000);
    assert.equal(await status(), 200);
    await page.clock.fastForward(2000);
    await until('the session is deleted', async () => (await status()) === 404);
  });
});

test('an edited message is sent on a branch, and the original stays', async () => {
  const session = await server.createSession({ title: 'edited', label: 'edited', message: 'one' });
  await server.send(session.id, 'two, with a mistake');
  await onPage(`#/s/${session.id}`, async (page) => {
    const message = page.locator('.user').filter({ hasText: 'two, with a mistake' });
    await message.getByRole('button', { name: 'Edit and resend as a branch' }).click();
    await page.getByLabel('Edited message').fill('two, corrected');
    await page.getByRole('button', { name: 'Send as a branch', exact: true }).click();
    await page.waitForFunction((id) => !location.hash.includes(id), session.id);
    await untilRow(page, DEMO.quote('two, corrected'));
    const branch = await server.untilState(sessionIdOf(page), 'idle');
    assert.deepEqual([branch.origin, branch.turn_count], ['fork', 2]);
    const { turn_count } = await server.api('GET', `/sessions/${session.id}`);
    assert.equal(turn_count, 2);
    await untilRow(page, 'one');
  });
});

test('an edited message keeps its image', () =>
  onPage('#/new', async (page) => {
    await sendImage(page, 'look at this');
    const id = sessionIdOf(page);
    await page.getByRole('button', { name: 'Edit and resend as a branch' }).click();
    await page.getByLabel('Edited message').fill('look again');
    await page.keyboard.press('Enter');
    await page.waitForFunction((id) => !location.hash.includes(id), id);
    await untilRow(page, 'look again');
    await untilImageShown(page);
  }));

test('an error card has a button to retry', async () => {
  const session = await server.createSession({ title: 'fails', message: 'fail' });
  await onPage(`#/s/${session.id}`, async (page) => {
    const card = page.getByRole('group', { name: 'Error' });
    await card.getByRole('button', { name: 'Retry' }).click();
    await until('a second attempt', async () => {
      const { turns } = await server.api('GET', `/sessions/${session.id}/tree`);
      return turns.length === 2;
    });
    await server.untilState(session.id, 'idle');
    await page.getByRole('button', { name: 'Retry', exact: true }).waitFor();
    assert.equal(await messageField(page).isEnabled(), true);
  });
});
