// Everybody can use the page, and nothing that somebody said runs in it.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { browser, model, open, PATIENCE_MS, PNG, said, Server } from './lab.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Each tries to run something, to load something, or to go somewhere. */
const CORPUS = [
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
  // Not to run, but to bring the page to a stop.
  `${'> '.repeat(3000)}deep`,
  '_a'.repeat(20_000),
  '['.repeat(20_000),
];

let chrome, server, echo;
before(async () => {
  echo = await model();
  chrome = await browser();
  server = await Server.start(`[providers.demo]\nkind = "demo"\n[providers.echo]\nkind = "openai"\nbase_url = "${echo.url}"\nmodel = "echo-1"\n[defaults]\nprovider = "echo"\n`);
});
after(async () => {
  await chrome?.close();
  await server?.end();
  await echo?.end();
});

test('what tries to run is shown as text', async () => {
  const session = await server.session({ title: '<img src=x onerror="window.hit=1">', message: CORPUS[0] });
  for (const words of CORPUS.slice(1)) await server.say(session.id, words);
  const page = await open(chrome, `${server.url}/#/s/${session.id}`);
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.locator('.row-foot').last().waitFor();
  // Through all of it: rows are drawn when they come into sight.
  const text = await page.evaluate(async () => {
    const box = document.querySelector('.scroller');
    const seen = new Map();
    const links = [];
    const note = () => {
      document.querySelectorAll('.row').forEach((row) => seen.set(row.dataset.key, row.textContent));
      document.querySelectorAll('.prose a').forEach((link) => links.push(`${link.getAttribute('href')} ${link.rel} ${link.target}`));
    };
    box.scrollTop = 0;
    for (let n = 0; n < 500; n++) {
      await new Promise(requestAnimationFrame);
      note();
      if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) break;
      box.scrollTop += 300;
    }
    return { all: [...seen.values()].join('\n'), hit: window.hit, links, bad: document.querySelectorAll('.prose script, .prose iframe, .prose img, .prose form, .prose style, .prose svg, .prose [style], .prose [id], .prose object').length };
  });
  assert.equal(text.hit, undefined, 'something ran');
  assert.equal(text.bad, 0);
  assert.ok(text.links.length > 0, 'what is fine is a link');
  assert.deepEqual(text.links.filter((link) => !/^(https?|mailto):\S+ noopener noreferrer _blank$/.test(link)), []);
  for (const words of ['<script>window.hit=1</script>', '<iframe src="javascript:parent.hit=1"></iframe>', '<style>*{display:none}</style>', '<base href="https://evil.example/">']) {
    assert.ok(text.all.includes(words), `${words} is shown`);
  }
  assert.deepEqual(asked.filter((url) => !url.startsWith(server.url) && !url.startsWith('blob:')), [], 'nothing was asked of others');
  assert.deepEqual(page.mistakes, [], 'the policy had nothing to block');
  await page.context().close();
});

test('the policy is strict, and files say what they are', async () => {
  const page = await fetch(server.url);
  const policy = page.headers.get('content-security-policy');
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) assert.ok(policy.includes(rule), rule);
  assert.doesNotMatch(policy, /unsafe|\*/);
  for (const [file, type] of [['app.js', 'text/javascript'], ['app.css', 'text/css'], ['icon.svg', 'image/svg+xml']]) {
    const answer = await fetch(`${server.url}/assets/${file}`);
    assert.equal(answer.headers.get('content-type').split(';')[0], type);
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
    const again = await fetch(`${server.url}/assets/${file}`, { headers: { 'if-none-match': answer.headers.get('etag') } });
    assert.equal(again.status, 304);
  }
  for (const path of ['SOURCE_HASH', 'nothing.js', '..%2fCargo.toml', 'index.html%00']) assert.equal((await fetch(`${server.url}/assets/${path}`)).status, 404, path);
});

/** Every view, each with something in it. */
async function views() {
  const answer = '## Plan\n\nSome *words* and `code`, a [link](https://example.org).\n\n```rust\nfn main() {}\n```\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted';
  const talk = await server.session({ title: 'a talk', label: 'axe-talk', message: answer });
  await server.say(talk.id, 'think', { provider_id: 'demo' });
  await server.say(talk.id, 'use a tool', { provider_id: 'demo' });
  await server.say(talk.id, 'fail', { provider_id: 'demo' });
  const fork = await server.api('POST', `/sessions/${talk.id}/fork`, { label: 'axe-fork' });
  await server.say(fork.id, 'another way');
  const short = await server.session({ title: 'short', provider_id: 'demo', message: { content: [{ type: 'text', text: 'hello' }, { type: 'image', media_type: 'image/png', data: PNG.toString('base64') }] } });
  await server.say(short.id, 'hello again');
  await server.say(short.id, '/compact');
  await server.say(short.id, 'and on');
  await server.api('POST', `/sessions/${short.id}/pins/${(await server.api('GET', `/sessions/${short.id}`)).head}`);
  const asks = await server.session({ title: 'asks', provider_id: 'demo', message: 'permission' });
  const tools = [{ name: 'get_weather', description: 'weather', parameters: { type: 'object' } }];
  const form = await server.session({ title: 'form', provider_id: 'demo', message: { text: 'get_weather {"city": "Oslo"}', tools } });
  const task = await server.session({ title: 'task', track_tasks: true, provider_id: 'demo', message: 'Add a retry with a tool' });
  await server.say(task.id, 'Perfect, thanks!');
  await server.say(task.id, 'Now add a log with a tool');
  const queued = await server.session({ title: 'queued' });
  await server.api('POST', `/sessions/${queued.id}/messages`, { text: 'slow 2000', provider_id: 'demo' });
  await server.api('POST', `/sessions/${queued.id}/messages`, { text: 'waits', queue_mode: 'queue', provider_id: 'demo' });
  return [
    ['the list', '', async (page) => page.locator('.session').first().waitFor()],
    ['a search', '', async (page) => {
      await page.locator('#find').fill('words');
      await page.locator('.hits li').first().waitFor();
    }],
    ['a new session', '#/new', async (page) => page.getByRole('heading', { name: 'New session' }).waitFor()],
    ['a conversation', `#/s/${talk.id}`, async (page) => {
      await said(page, 'My clock says');
      await page.getByRole('button', { name: /demo_clock/ }).click();
      await page.getByRole('button', { name: /^Thought/ }).click();
    }],
    ['a compaction', `#/s/${short.id}`, async (page) => {
      await page.getByText('pinned', { exact: true }).waitFor();
      await page.getByRole('button', { name: /^Context shortened/ }).click();
      await page.locator('.mark').getByText('A summary by the demo agent').waitFor();
    }],
    ['to compact', `#/s/${short.id}`, async (page) => {
      await page.getByRole('button', { name: 'Compact…' }).click();
      await page.getByLabel('What to keep above all').waitFor();
    }],
    ['its branches', `#/s/${talk.id}`, async (page) => {
      await page.getByRole('button', { name: 'Branches' }).click();
      await page.locator('.tree circle').nth(1).waitFor();
    }],
    ['a permission', `#/s/${asks.id}`, async (page) => page.getByRole('button', { name: 'Allow once' }).waitFor()],
    ['a form', `#/s/${form.id}`, async (page) => page.getByRole('textbox', { name: 'Result' }).waitFor()],
    ['a task', `#/s/${task.id}`, async (page) => {
      await page.getByRole('button', { name: 'pending complete' }).click();
      await page.locator('.commit').waitFor();
    }],
    ['an inbox', `#/s/${queued.id}`, async (page) => page.locator('.inbox li').waitFor()],
    ['side by side', '#/s/axe-talk/compare/axe-fork', async (page) => page.getByText('in common').waitFor()],
    ['sealed work', '#/commits', async (page) => page.locator('.commit').first().waitFor()],
    ['the keys', '', async (page) => {
      await page.locator('.session').first().waitFor();
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
    }],
    ['nothing there', '#/s/never-was', async (page) => page.getByText('It is not here').waitFor()],
  ];
}

async function violations(page, only) {
  const found = await page.evaluate((only) => window.axe.run(document, { resultTypes: ['violations'], ...(only && { runOnly: only }) }), only);
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary?.split('\n').slice(1).join(' ')}`).join(' | ')}`);
}

test('axe finds nothing on any view, light and dark, wide and narrow', async () => {
  const { server: door } = await Server.forOthers('read');
  const all = (await views()).map(([name, place, act]) => [name, `${server.url}/${place}`, act]);
  all.push(['the login', `${door.url}/`, async (page) => page.getByLabel('Token').waitFor()]);
  const wide = { width: 1280, height: 860 };
  const narrow = ['the list', 'a new session', 'a conversation', 'a compaction', 'a permission', 'side by side', 'the login'];
  const passes = [
    { viewport: wide, views: all },
    { viewport: { width: 390, height: 844 }, views: all.filter(([name]) => narrow.includes(name)) },
  ];
  try {
    for (const { viewport, views } of passes) {
      for (const [name, url, act] of views) {
        // Scripts of the test itself are let in; the page's own policy is tested above.
        const context = await chrome.newContext({ viewport, colorScheme: 'light', bypassCSP: true });
        const page = await context.newPage();
        page.setDefaultTimeout(PATIENCE_MS);
        await page.goto(url);
        await act(page);
        await page.evaluate(axe);
        assert.deepEqual(await violations(page, null), [], `${name}, light, ${viewport.width}`);
        // What differs in the dark is colours.
        await page.emulateMedia({ colorScheme: 'dark' });
        assert.deepEqual(await violations(page, ['color-contrast']), [], `${name}, dark, ${viewport.width}`);
        await context.close();
      }
    }
  } finally {
    await door.end();
  }
});
