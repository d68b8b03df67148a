// Tasks: confirm, reopen, abandon, commands of ctx, and the question about unfinished work.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  DEMO,
  launchBrowser,
  messageField,
  sendMessage,
  Server,
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

const userMessages = async (session) => {
  const { messages } = await server.api('GET', `/sessions/${session}/messages`);
  return messages.filter((message) => message.role === 'user').length;
};

// R84: confirming by a button seals at once, and the notice offers to undo it.
test('a finished task is confirmed above the composer, and the notice undoes it', async () => {
  const message = 'Add a retry with a tool';
  const session = await server.createSession({ track_tasks: true, title: 'a task', message });
  await onPage(`#/s/${session.id}`, async (page) => {
    const finished = page.getByRole('region', { name: 'Finished task' });
    await finished.getByText(message).waitFor();
    await finished.getByRole('button', { name: 'Confirm' }).click();
    const sealed = page.locator('.notice').filter({ hasText: 'The task was sealed as normal' });
    await finished.waitFor({ state: 'detached' });
    const link = sealed.getByRole('link');
    assert.match(await link.innerText(), /^[0-9a-f]{10}$/);
    assert.doesNotMatch(await sealed.innerText(), /ctx session reopen|[0-9a-f]{64}/);
    assert.equal(await page.locator('.row-footer').count(), 1, 'a notice has no footer');
    await page.getByRole('button', { name: 'Retry the last message' }).waitFor();
    await sealed.getByRole('button', { name: 'Undo' }).click();
    await page.locator('.notice').getByText('The task was reopened').waitFor();
    await sealed.getByRole('button').waitFor({ state: 'detached' });
    assert.equal((await server.api('GET', `/sessions/${session.id}`)).task.description, message);
    assert.equal(await userMessages(session.id), 1, 'the buttons send no message');
    await link.click();
    await page.locator('.commit').getByText(message, { exact: true }).first().waitFor();
    assert.equal(await page.locator('.commit').count(), 1);
    await page.getByRole('link', { name: 'All commits' }).click();
    await page.getByRole('link', { name: 'All commits' }).waitFor({ state: 'detached' });
    await page.locator('.commit').first().waitFor();
  });
});

test('the task panel confirms, reopens and abandons a task', async () => {
  const message = 'Add a timeout with a tool';
  const session = await server.createSession({ track_tasks: true, title: 'panel', message });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.getByRole('button', { name: 'Task: pending complete' }).click();
    const task = page.getByRole('region', { name: 'Open task' });
    await task.getByText(message).waitFor();
    await task.getByRole('button', { name: 'Confirm' }).click();
    await page.locator('.commit').getByText('done', { exact: true }).waitFor();
    await page.getByText('No open task.').waitFor();
    await page.getByRole('button', { name: 'Reopen the last task' }).click();
    // A reopened task is running: it can still be confirmed, but only in the panel.
    await task.getByRole('button', { name: 'Confirm' }).waitFor();
    assert.equal(await page.getByRole('region', { name: 'Finished task' }).count(), 0);
    await task.getByRole('button', { name: 'Abandon' }).click();
    await page.locator('.commit').getByText('abandoned', { exact: true }).waitFor();
    assert.equal(await userMessages(session.id), 1);
  });
});

test('a refused action on the task shows the error beside its button', async () => {
  const message = 'Add a limit with a tool';
  const session = await server.createSession({ track_tasks: true, title: 'refused', message });
  await onPage(`#/s/${session.id}`, async (page) => {
    const finished = page.getByRole('region', { name: 'Finished task' });
    const refused = { status: 409, json: { code: 'no_task', detail: 'no task is open' } };
    await page.route('**/task/confirm', (route) => route.fulfill(refused));
    await finished.getByRole('button', { name: 'Confirm' }).click();
    await finished.getByRole('alert').getByText('no task is open').waitFor();
    assert.ok(await finished.getByRole('button', { name: 'Confirm' }).isEnabled());
  });
});

test('the composer offers the commands of ctx and of the agent', async () => {
  const message = 'Add a cache with a tool';
  const session = await server.createSession({ track_tasks: true, title: 'commands', message });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await page.route('**/api/providers', async (route) => {
      const body = await (await route.fetch()).json();
      body.providers[0].commands = [{ name: 'review', description: 'Review it' }, { name: 'done' }];
      return route.fulfill({ json: body });
    });
    const commands = page.getByRole('listbox', { name: 'Commands' });
    await messageField(page).fill('/');
    await commands.getByText('Review it').waitFor();
    const names = await commands.locator('code').allInnerTexts();
    assert.deepEqual(names, ['/help', '/done', '/abandon', '/compact', '/review']);
    await messageField(page).fill('/ab');
    await commands.getByRole('option', { name: '/abandon' }).click();
    assert.equal(await messageField(page).inputValue(), '/abandon ');
    await commands.waitFor({ state: 'detached' });
    await messageField(page).fill('/he');
    await messageField(page).press('Tab');
    assert.equal(await messageField(page).inputValue(), '/help ');
    await messageField(page).press('Enter');
    await page.locator('.notice').getByText('seal the open task as complete').waitFor();
    await sendMessage(page, '/done all of it');
    await page.locator('.notice').getByText('The task was sealed as normal').waitFor();
    assert.equal(await page.locator('.row-footer').count(), 1, 'the agent was not asked');
  });
});

test('a new request during unfinished work shows a question with two choices', async () => {
  const first = 'Add retry logic to the client, use a tool';
  const session = await server.createSession({ track_tasks: true, title: 'asked', message: first });
  await server.send(session.id, 'also ask me about the number of attempts');
  await onPage(`#/s/${session.id}`, async (page) => {
    const next = 'New task: write the documentation for the parser';
    await sendMessage(page, next);
    const card = page.getByRole('region', { name: 'Question about the task' });
    await card.getByText('Add retry logic').waitFor();
    assert.equal(await card.getByRole('button').count(), 2);
    await card.getByRole('button', { name: 'Save and start fresh' }).click();
    await untilRow(page, DEMO.quote(next));
    await card.waitFor({ state: 'detached' });
  });
});
