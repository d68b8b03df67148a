// Tasks: confirm, reopen, abandon, and the question about unfinished work.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DEMO, launchBrowser, sendMessage, Server, untilRow, withPage } from './harness.mjs';

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

test('a confirmed task becomes a commit, and can be reopened and abandoned', async () => {
  const message = 'Add a retry with a tool';
  const session = await server.createSession({ track_tasks: true, title: 'a task', message });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.getByRole('button', { name: 'pending complete' }).click();
    const task = page.getByRole('region', { name: 'Open task' });
    await task.getByText(message).waitFor();
    await task.getByRole('button', { name: 'Confirm' }).click();
    await page.locator('.commit').getByText('done', { exact: true }).waitFor();
    await page.getByText('No open task.').waitFor();
    await page.getByRole('button', { name: 'Reopen the last task' }).click();
    await task.getByRole('button', { name: 'Abandon' }).click();
    await page.locator('.commit').getByText('abandoned', { exact: true }).waitFor();
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
