// Tokens: a server that is reachable over the network requires one.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  DEMO,
  launchBrowser,
  messageField,
  sendImage,
  sendMessage,
  Server,
  untilImageShown,
  untilRow,
  withPage,
} from './harness.mjs';

let browser, server, token;
before(async () => {
  browser = await launchBrowser();
  ({ server, token } = await Server.startWithToken());
});
after(async () => {
  await browser?.close();
  await server?.end();
});

test('a token is required, kept for the tab only, and required again after it is revoked', () =>
  withPage(browser, `${server.url}/`, async (page) => {
    const logIn = async (secret) => {
      await page.getByLabel('Token').fill(secret);
      await page.getByRole('button', { name: 'Log in' }).click();
    };
    for (const wrong of ['Schlüssel →', `${token.token.slice(0, -1)}-`]) {
      await page.goto('about:blank');
      await page.goto(server.url);
      await logIn(wrong);
      await page.getByText('Invalid token.').waitFor();
    }
    await logIn(token.token);
    await page.getByText('Connected', { exact: true }).waitFor();
    await page.goto(`${server.url}/#/new`);
    await sendImage(page, 'slow 12');
    await untilRow(page, DEMO.filler);
    await page.reload();
    await untilImageShown(page);
    const storage = await page.evaluate(() => JSON.stringify(localStorage));
    assert.ok(!storage.includes(token.token), 'the token is in the session storage only');
    assert.ok(!page.url().includes(token.token));
    await sendMessage(page, 'slow 400');
    await untilRow(page, DEMO.fillerLater);
    server.runCtx('token', 'revoke', token.id);
    await page.getByRole('heading', { name: 'Log in to ctx' }).waitFor();
    // A token with scope `read` can see everything. A rejected message stays in the field.
    await logIn(server.createToken('read').token);
    await untilRow(page, 'slow 400');
    await sendMessage(page, 'not allowed');
    await page.locator('.composer').getByRole('alert').waitFor();
    assert.equal(await messageField(page).inputValue(), 'not allowed');
  }));
