// Images in messages.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  launchBrowser,
  messageField,
  PNG,
  sendImage,
  Server,
  sessionIdOf,
  untilImageShown,
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
const attach = (page, name, mimeType, buffer) =>
  page.locator('input[type=file]').setInputFiles({ name, mimeType, buffer });

// R237
test('an attached image is stored and shown from a blob URL', () =>
  onPage('#/new', async (page) => {
    await sendImage(page, 'what is this?');
    assert.match(await page.locator('.image img').getAttribute('src'), /^blob:/);
    await page.reload();
    await untilImageShown(page);
    const path = `/sessions/${sessionIdOf(page)}/messages`;
    const [text, image] = (await server.api('GET', path)).messages[0].content;
    assert.equal(text.text, 'what is this?');
    const stored = [image.type, image.media_type, image.size];
    assert.deepEqual(stored, ['image', 'image/png', PNG.length]);
  }));

test('a file that is neither text nor an image is rejected', () =>
  onPage('#/new', async (page) => {
    await attach(page, 'x.bin', 'application/octet-stream', Buffer.from([0xff, 0xfe, 0]));
    await page.getByRole('alert').getByText('Cannot attach x.bin').waitFor();
  }));

test('a message with an invalid image is rejected by the server and stays in the field', () =>
  onPage('#/new', async (page) => {
    await messageField(page).fill('and this?');
    await attach(page, 'no.png', 'image/png', Buffer.from('not an image'));
    await page.getByRole('list', { name: 'Attachments' }).getByText('no.png').waitFor();
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('alert').getByText('content[1]').waitFor();
    assert.equal(await messageField(page).inputValue(), 'and this?');
  }));

test('an SVG image is not shown, because it can contain scripts', () =>
  onPage('#/new', async (page) => {
    await sendImage(page, 'a drawing');
    // The server stores no SVG, so the response is changed on its way to the page.
    await page.route(/\/turns\?/, async (route) => {
      const body = (await (await route.fetch()).text()).replaceAll('image/png', 'image/svg+xml');
      return route.fulfill({ body, contentType: 'application/json' });
    });
    await page.reload();
    await page.getByText('Images of type image/svg+xml are not shown.').waitFor();
    assert.equal(await page.locator('.image').count(), 0);
  }));
