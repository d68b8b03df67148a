// Pictures of every view for the documents: `CTX_BIN=… node shots.mjs [DIRECTORY]`, light and dark, wide and narrow.
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { browser, model, open, said, Server } from './test/lab.mjs';

const into = process.argv[2] ?? fileURLToPath(new URL('../docs/screenshots', import.meta.url));
const QUALITY = 70;

const REVIEW = `The retry loop has two problems:

1. \`backoff\` is never capped, so the ninth attempt waits **more than four minutes**.
2. A \`429\` with \`Retry-After\` is treated like any other failure.

\`\`\`rust
/// Waits before the next attempt, never longer than \`MAX\`.
pub fn backoff(attempt: u32, told: Option<Duration>) -> Duration {
    const MAX: Duration = Duration::from_secs(30);
    told.unwrap_or_else(|| BASE * 2u32.saturating_pow(attempt)).min(MAX)
}
\`\`\`

| attempt | before | after |
|---:|---:|---:|
| 3 | 4 s | 4 s |
| 6 | 32 s | 30 s |
| 9 | 256 s | 30 s |

I would change both in one step. Shall I?`;

const SUMMARY =
  'The nightly build takes 41 minutes, 26 of them linking. **Decided:** one binary for all integration tests, `lld` on CI. **Open:** whether the cache of the runners is shared.';

const ANSWERS = {
  otherwise: SUMMARY,
  'Where does the nightly build spend its time?': 'In linking: **26 of 41 minutes**. Each of the 34 integration tests is a binary of its own, and each links everything.',
  'One binary for all integration tests, then?': 'Yes. One binary with a module per test links once; it should save about twenty minutes.',
  'What about the cache?': 'The runners have a cache of their own each. Whether it can be shared is for whoever runs them to say.',
  'Then start with the linker.': 'With `lld` the one remaining link takes 40 s instead of 2 min. I set it for CI only:\n\n```ini\n[target.x86_64-unknown-linux-gnu]\nrustflags = ["-C", "link-arg=-fuse-ld=lld"]\n```',
  'Look at client.rs: are the retries right?': { thought: 'The backoff doubles without a bound. I should also check how 429 is handled before I propose a change.', text: REVIEW },
  'Yes, with edit_file.': {
    text: 'I change the function and keep its signature for callers.',
    call: { name: 'edit_file', params: { path: 'src/client.rs', old_string: 'fn backoff(attempt: u32) -> Duration {\n    BASE * 2u32.pow(attempt)\n}', new_string: 'fn backoff(attempt: u32, told: Option<Duration>) -> Duration {\n    told.unwrap_or_else(|| BASE * 2u32.saturating_pow(attempt)).min(MAX)\n}' } },
  },
  'after edit_file': 'Done: `backoff` is capped at 30 s and honours `Retry-After`. The eleven tests of the client pass.',
  'What about jitter?': 'Full jitter spreads a thundering herd best: wait a random time between zero and the capped backoff. It is one line more, and the tests need a seed.',
  'Leave jitter out, and write the changelog line.': '> client: retries wait at most 30 s and honour `Retry-After`\n\nThat is the line; it stands under *Fixed*.',
};

/** A picture to attach: how long each step of a build takes. */
async function chart(chrome) {
  const page = await chrome.newPage({ viewport: { width: 560, height: 150 } });
  const bars = [['compile', 190, '#5871e0'], ['link', 330, '#c0762b'], ['test', 90, '#2f9e6b']];
  const drawn = bars.map(([name, width, fill], n) => `<text x="16" y="${42 + n * 40}">${name}</text><rect x="90" y="${24 + n * 40}" width="${width}" height="26" rx="4" fill="${fill}"/><text x="${102 + width}" y="${42 + n * 40}">${Math.round(width / 12.7)} min</text>`);
  await page.setContent(`<style>body{margin:0;background:#fff;font:15px system-ui}</style><svg width="560" height="150">${drawn.join('')}</svg>`);
  const picture = await page.screenshot();
  await page.close();
  return picture.toString('base64');
}

/** A conversation with a picture, a pinned turn, and a summary of what was said before. */
async function shortened(server, chrome) {
  const content = [{ type: 'text', text: 'Where does the nightly build spend its time?' }, { type: 'image', media_type: 'image/png', data: await chart(chrome) }];
  const session = await server.session({ title: 'The nightly build', project: 'ci', message: { content } });
  await server.say(session.id, 'One binary for all integration tests, then?');
  await server.api('POST', `/sessions/${session.id}/pins/${(await server.api('GET', `/sessions/${session.id}`)).head}`);
  await server.say(session.id, 'What about the cache?');
  await server.say(session.id, '/compact decisions and open questions');
  await server.say(session.id, 'Then start with the linker.');
  return session;
}

async function seed(server) {
  const project = 'parcel';
  await server.session({ title: 'Why is the nightly build slow?', project: 'ci', provider_id: 'demo', message: 'long 60' });
  const gone = await server.session({ title: 'Spike: gRPC gateway', project, message: 'A spike' });
  await server.api('POST', `/sessions/${gone.id}/archive`);
  await server.session({ title: 'Release notes for 2.4', project: 'docs', provider_id: 'demo', message: 'help' });
  const task = await server.session({ title: 'Add retry logic to the uploader', project, track_tasks: true, provider_id: 'demo', message: 'Add retry logic to the uploader, use a tool' });
  await server.say(task.id, 'Perfect, thanks!');
  await server.say(task.id, 'Now add a log line for each retry, use a tool');
  const asks = await server.session({ title: 'Move the config to TOML', project, provider_id: 'demo', message: 'permission' });
  const tools = [{ name: 'edit_file', description: 'changes a file', parameters: { type: 'object' } }];
  const talk = await server.session({ title: 'Review the retry loop', label: 'review', project, message: { text: 'Look at client.rs: are the retries right?', tools } });
  await server.say(talk.id, 'Yes, with edit_file.', { tools });
  const [waits] = (await server.api('GET', `/sessions/${talk.id}`)).suspensions;
  const form = await server.api('GET', `/sessions/${talk.id}`);
  return { task, asks, talk, waits, form };
}

async function finish(server, { talk, waits }) {
  const resumed = { suspension_id: waits.id, results: [{ tool_call_id: waits.tool_calls[0].id, content: 'src/client.rs: 1 change' }] };
  await server.api('POST', `/sessions/${talk.id}/resume`, resumed);
  for (;;) {
    if ((await server.api('GET', `/sessions/${talk.id}`)).state === 'idle') break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const fork = await server.api('POST', `/sessions/${talk.id}/fork`, { label: 'review-jitter' });
  await server.api('PATCH', `/sessions/${fork.id}`, { title: 'Review: with jitter' });
  await server.say(fork.id, 'What about jitter?');
  await server.say(talk.id, 'Leave jitter out, and write the changelog line.');
}

async function shoot(chrome, name, url, act, sizes = ['wide', 'narrow']) {
  for (const size of sizes) {
    for (const colorScheme of ['light', 'dark']) {
      const viewport = size === 'wide' ? { width: 1280, height: 820 } : { width: 390, height: 844 };
      const page = await open(chrome, url, { viewport, colorScheme });
      await act(page, size);
      await page.evaluate(() => document.fonts.ready);
      // The playwright of today writes PNG and JPEG; the browser itself also writes WebP, which is a third of it.
      const session = await page.context().newCDPSession(page);
      const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
      await writeFile(join(into, `${name}-${size}-${colorScheme}.webp`), Buffer.from(data, 'base64'));
      await page.context().close();
    }
  }
}

await mkdir(into, { recursive: true });
const echo = await model(ANSWERS);
const server = await Server.start(`[providers.demo]\nkind = "demo"\n[providers.sonata]\nkind = "openai"\nbase_url = "${echo.url}"\nmodel = "sonata-large"\n[defaults]\nprovider = "sonata"\n`);
const { server: door } = await Server.forOthers('read');
const chrome = await browser();
try {
  const seeded = await seed(server);
  const to = (place) => `${server.url}/${place}`;
  await shoot(chrome, 'form', to(`#/s/${seeded.talk.id}`), async (page) => page.getByRole('textbox', { name: 'Result' }).waitFor(), ['wide']);
  await finish(server, seeded);
  await shoot(chrome, 'conversation', to(`#/s/${seeded.talk.id}`), async (page) => {
    await said(page, 'It stands under').catch(() => said(page, 'it stands under'));
    await page.getByRole('button', { name: /edit_file/ }).click();
    await page.locator('.diff').waitFor();
  });
  await shoot(chrome, 'answer', to(`#/s/${seeded.talk.id}`), async (page) => {
    await page.locator('.row-foot').first().waitFor();
    await page.locator('.scroller').evaluate((box) => (box.scrollTop = 0));
    await page.locator('figure.code').waitFor();
  });
  const short = await shortened(server, chrome);
  await shoot(chrome, 'compaction', to(`#/s/${short.id}`), async (page) => {
    await said(page, 'I set it for CI only');
    await page.getByRole('button', { name: /^Context shortened/ }).click();
    await page.locator('.mark .prose').waitFor();
    await page.locator('.row-foot').filter({ hasText: 'pinned' }).first().waitFor();
    await page.locator('.scroller').evaluate((box) => (box.scrollTop = box.scrollHeight));
    await page.getByRole('button', { name: 'To the end' }).waitFor({ state: 'detached' });
  });
  await shoot(chrome, 'picture', to(`#/s/${short.id}`), async (page) => {
    await said(page, 'I set it for CI only');
    await page.locator('.scroller').evaluate((box) => (box.scrollTop = 0));
    await page.waitForFunction(() => document.querySelector('.picture img')?.naturalWidth > 0);
  }, ['wide']);
  await shoot(chrome, 'compact', to(`#/s/${short.id}`), async (page) => {
    await said(page, 'I set it for CI only');
    await page.getByRole('button', { name: 'Compact…' }).click();
    await page.getByLabel('What to keep above all').fill('what was decided');
  });
  await shoot(chrome, 'branches', to(`#/s/${seeded.talk.id}`), async (page) => {
    await page.locator('.row-foot').first().waitFor();
    await page.locator('.tool-button').last().click();
    await page.locator('.tree-words').filter({ hasText: 'jitter' }).first().waitFor();
  });
  await shoot(chrome, 'compare', to('#/s/review/compare/review-jitter'), async (page) => page.getByText('in common').waitFor());
  await shoot(chrome, 'task', to(`#/s/${seeded.task.id}`), async (page) => {
    await page.locator('.row-foot').first().waitFor();
    await page.locator('.tool-button').first().click();
    await page.locator('.commit').waitFor();
  });
  await shoot(chrome, 'permission', to(`#/s/${seeded.asks.id}`), async (page) => page.getByRole('button', { name: 'Allow once' }).waitFor());
  await shoot(chrome, 'list', to(''), async (page) => page.locator('.session').nth(4).waitFor());
  await shoot(chrome, 'search', to(''), async (page) => {
    await page.locator('#find').fill('retry');
    await page.locator('.hits a').first().waitFor();
  });
  await shoot(chrome, 'new', to('#/new'), async (page) => page.getByRole('heading', { name: 'New session' }).waitFor());
  await shoot(chrome, 'commits', to('#/commits'), async (page) => page.locator('.commit').first().waitFor());
  await shoot(chrome, 'keys', to(''), async (page) => {
    await page.locator('.session').first().waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
  }, ['wide']);
  await shoot(chrome, 'login', `${door.url}/`, async (page) => page.getByLabel('Token').waitFor());
  const busy = await server.session({ title: 'A long answer', project: 'parcel' });
  await server.api('POST', `/sessions/${busy.id}/messages`, { text: 'slow 3000', provider_id: 'demo' });
  for (const text of ['And the tests?', 'Then write the changelog.']) await server.api('POST', `/sessions/${busy.id}/messages`, { text, queue_mode: 'queue' });
  await shoot(chrome, 'busy', to(`#/s/${busy.id}`), async (page) => {
    await page.locator('.inbox li').nth(1).waitFor();
    await said(page, 'the demo agent of ctx');
  });
} finally {
  await chrome.close();
  await door.end();
  await server.end();
  await echo.end();
}
let total = 0;
for (const file of await readdir(into)) total += (await stat(join(into, file))).size;
console.log(`${(await readdir(into)).length} pictures, ${Math.round(total / 1024)} KiB`);
