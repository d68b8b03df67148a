// Untrusted message text runs no code and loads nothing; the server sends strict headers.
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

/** Markdown that tries to run code, to load a resource or to leave the page. */
const ATTACKS = [
  '<script>window.hit=1</script>',
  '<img src=x onerror="window.hit=1">',
  '<svg onload="window.hit=1"><circle r=9></svg>',
  '<iframe src="javascript:parent.hit=1"></iframe>',
  '<a href="javascript:window.hit=1">click</a>',
  '[click](javascript:window.hit=1)',
  '[click](JaVaScRiPt:window.hit=1)',
  '[click](data:text/html,<script>window.hit=1</script>)',
  '[click](vbscript:x)',
  '[a]\n\n[a]: javascript:window.hit=1',
  '![x](https://evil.example/pixel.png)',
  '![x"onerror="window.hit=1](x)',
  '<details open ontoggle="window.hit=1">x</details>',
  '<math><mtext><table><mglyph><style><img src=x onerror="window.hit=1">',
  '<style>*{display:none}</style>',
  '<form action="https://evil.example"><input name=q><button>go</button></form>',
  '<input autofocus onfocus="window.hit=1">',
  '<base href="https://evil.example/">',
  '<object data="https://evil.example/x.swf"></object>',
  '<link rel=stylesheet href="https://evil.example/x.css">',
  '[fine](https://example.org/) and <https://example.org/auto> and https://example.org/plain',
  '```html\n<script>window.hit=1</script>\n```',
  '```"><img src=x onerror=window.hit=1>\ncode\n```',
  '`<img src=x onerror=window.hit=1>`',
  '<div style="position:fixed;inset:0;background:red">over all</div>',
  '| <img src=x onerror=window.hit=1> | b |\n|---|---|\n| <script>window.hit=1</script> | 2 |',
  '<p id="app" name="find">clobbered</p>',
  '<http://x.example/" onmouseover="window.hit=1>',
  '\u202e<b>txet</b>',
  // Input that could block the parser.
  `${'> '.repeat(3000)}deep`,
  '_a'.repeat(20_000),
  '['.repeat(20_000),
];

let browser, server, model;
before(async () => {
  model = await startModel();
  browser = await launchBrowser();
  const echo = modelConfig('echo', model.url, 'echo-1');
  server = await Server.start(DEMO_CONFIG + echo + defaultProvider('echo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

/** In the page: scrolls through the transcript, because rows are drawn only near the viewport. */
async function scrollThrough() {
  const forbidden = [
    'script',
    'iframe',
    'img',
    'form',
    'style',
    'svg',
    '[style]',
    '[id]',
    'object',
  ];
  const selector = forbidden.map((name) => `.prose ${name}`).join();
  const scroller = document.querySelector('.scroller');
  const texts = new Map();
  const links = [];
  let forbiddenNodes = 0;
  scroller.scrollTop = 0;
  for (let n = 0; n < 500; n++) {
    await new Promise(requestAnimationFrame);
    for (const row of document.querySelectorAll('.row'))
      texts.set(row.dataset.key, row.textContent);
    for (const link of document.querySelectorAll('.prose a')) {
      links.push(`${link.getAttribute('href')} ${link.rel} ${link.target}`);
    }
    forbiddenNodes += document.querySelectorAll(selector).length;
    if (scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 2) break;
    scroller.scrollTop += 300;
  }
  return { text: [...texts.values()].join('\n'), hit: window.hit, links, forbiddenNodes };
}

test('code in messages is shown as text and does not run', async () => {
  const title = '<img src=x onerror="window.hit=1">';
  const session = await server.createSession({ title, message: ATTACKS[0] });
  for (const text of ATTACKS.slice(1)) await server.send(session.id, text);
  const page = await openPage(browser, `${server.url}/#/s/${session.id}`);
  const requests = [];
  page.on('request', (request) => requests.push(request.url()));
  await page.locator('.row-footer').last().waitFor();
  const result = await page.evaluate(scrollThrough);
  assert.equal(result.hit, undefined, 'no code ran');
  assert.equal(result.forbiddenNodes, 0);
  assert.ok(result.links.length > 0, 'safe links are links');
  const isSafe = (link) => /^(https?|mailto):\S+ noopener noreferrer _blank$/.test(link);
  assert.deepEqual(
    result.links.filter((link) => !isSafe(link)),
    [],
  );
  const shown = [
    '<script>window.hit=1</script>',
    '<iframe src="javascript:parent.hit=1"></iframe>',
    '<style>*{display:none}</style>',
    '<base href="https://evil.example/">',
  ];
  for (const text of shown) assert.ok(result.text.includes(text), `${text} is shown as text`);
  const isLocal = (url) => url.startsWith(server.url) || url.startsWith('blob:');
  assert.deepEqual(
    requests.filter((url) => !isLocal(url)),
    [],
    'no requests to other servers',
  );
  assert.deepEqual(page.errors, [], 'no violations of the content security policy');
  await page.context().close();
});

test('the content security policy is strict', async () => {
  const policy = (await fetch(server.url)).headers.get('content-security-policy');
  const rules = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  for (const rule of rules) assert.ok(policy.includes(rule), rule);
  assert.doesNotMatch(policy, /unsafe|\*/);
});

test('assets have a media type and an ETag, and other paths are not found', async () => {
  const types = { 'app.js': 'text/javascript', 'app.css': 'text/css', 'icon.svg': 'image/svg+xml' };
  for (const [file, type] of Object.entries(types)) {
    const response = await fetch(`${server.url}/assets/${file}`);
    assert.equal(response.headers.get('content-type').split(';')[0], type);
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    const headers = { 'if-none-match': response.headers.get('etag') };
    assert.equal((await fetch(`${server.url}/assets/${file}`, { headers })).status, 304);
  }
  for (const path of ['SOURCE_HASH', 'nothing.js', '..%2fCargo.toml', 'index.html%00']) {
    assert.equal((await fetch(`${server.url}/assets/${path}`)).status, 404, path);
  }
});

test('the frame that draws diagrams has no origin and can request nothing', async () => {
  const frame = await fetch(`${server.url}/assets/diagram-frame.html`);
  const policy = frame.headers.get('content-security-policy');
  for (const rule of ["default-src 'none'", 'sandbox allow-scripts', "frame-ancestors 'self'"]) {
    assert.ok(policy.includes(rule), rule);
  }
  assert.doesNotMatch(policy, /connect-src|img-src|allow-same-origin/);
  const resourcePolicy = async (file) =>
    (await fetch(`${server.url}/assets/${file}`)).headers.get('cross-origin-resource-policy');
  assert.equal(await resourcePolicy('diagram-frame.js'), 'cross-origin');
  assert.equal(await resourcePolicy('app.js'), 'same-origin');
});
