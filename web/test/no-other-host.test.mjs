// The page requests nothing from any other host, in any view, and sends no telemetry.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  defaultProvider,
  DEMO_CONFIG,
  launchBrowser,
  modelConfig,
  openPage,
  Server,
  startModel,
} from './harness.mjs';

const CONTENT = `A formula $x^2$, an image ![x](https://evil.example/pixel.png), a
[link](https://example.org) and code:

\`\`\`rust
fn main() {}
\`\`\`

\`\`\`mermaid
graph LR; A-->B; click A "https://evil.example/click"
\`\`\``;

let browser, server, model;
before(async () => {
  browser = await launchBrowser();
  model = await startModel();
  const echo = modelConfig('echo', model.url, 'echo-1');
  server = await Server.start(DEMO_CONFIG + echo + defaultProvider('echo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

test('every request of every view goes to this server', async () => {
  const session = await server.createSession({ title: 'content', message: CONTENT });
  const fork = await server.api('POST', `/sessions/${session.id}/fork`, {});
  const page = await openPage(browser, server.url);
  const requests = [];
  page.context().on('request', (request) => requests.push(request));
  await page.reload();
  await page.locator('.session').first().waitFor();
  const views = ['#/', '#/new', '#/commits', '#/people', '#/deliveries'];
  views.push(`#/s/${session.id}/compare/${fork.id}`, `#/s/${session.id}`);
  for (const hash of views) {
    await page.goto(`${server.url}/${hash}`);
    await page.locator('main, nav').first().waitFor();
  }
  await page.locator('.row-text .diagram img').waitFor();
  await page.locator('.row-text math').waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  for (const name of ['Task', 'Branches', 'Details (i)']) {
    await page.getByRole('button', { name, exact: true }).click();
    await page.locator('.panel h2').first().waitFor();
  }
  const isLocal = (url) =>
    url.startsWith(`${server.url}/`) || url.startsWith('blob:') || url.startsWith('data:');
  const urls = requests.map((request) => request.url());
  assert.ok(urls.length > 20, `${urls.length} requests`);
  assert.deepEqual(
    urls.filter((url) => !isLocal(url)),
    [],
  );
  const isRead = (request) => ['GET', 'HEAD'].includes(request.method());
  assert.deepEqual(
    requests.filter((request) => !isRead(request)).map((request) => request.url()),
    [],
    'reading sends nothing',
  );
  assert.deepEqual(page.errors, []);
  await page.context().close();
});
