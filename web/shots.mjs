// Takes the screenshots of the documentation: every view, light and dark, wide and narrow.
// Usage: `CTX_BIN=… node shots.mjs [DIRECTORY [VIEW…]]`; the default directory is docs/screenshots,
// the default is every view.
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { basename, join } from 'node:path';
import {
  channelConfig,
  defaultProvider,
  DEMO,
  DEMO_CONFIG,
  DM_POLICIES,
  launchBrowser,
  modelConfig,
  openMenu,
  openPage,
  Server,
  startChannel,
  startModel,
  until,
  untilRow,
} from './test/harness.mjs';
import { importUsage, PRICES } from './test/usage-fixture.mjs';
import { recordWork } from './test/work-fixture.mjs';

const outdir = process.argv[2] ?? fileURLToPath(new URL('../docs/screenshots', import.meta.url));
/** The views to take; all if empty. */
const wantedViews = process.argv.slice(3);
const QUALITY = 70;

const REVIEW = `The retry loop has two problems:

1. \`backoff\` is never capped, so the ninth attempt waits **more than four minutes**.
2. A \`429\` with \`Retry-After\` is treated like any other failure.

\`\`\`rust
/// Delay before the next attempt, at most \`MAX\`.
pub fn backoff(attempt: u32, retry_after: Option<Duration>) -> Duration {
    const MAX: Duration = Duration::from_secs(30);
    retry_after.unwrap_or_else(|| BASE * 2u32.saturating_pow(attempt)).min(MAX)
}
\`\`\`

| attempt | before | after |
|---:|---:|---:|
| 3 | 4 s | 4 s |
| 6 | 32 s | 30 s |
| 9 | 256 s | 30 s |

I would change both in one step. Shall I?`;

const SUMMARY =
  'The nightly build takes 41 minutes, 26 of them linking. **Decided:** one binary for all ' +
  'integration tests, `lld` on CI. **Open:** whether the cache of the runners is shared.';

const QUEUE = 'How long does a message wait?';
const READING = `With arrivals $\\lambda$ and service $\\mu$ per second a message waits[^1]

$$W = \\frac{\\lambda}{\\mu(\\mu - \\lambda)}$$

\`\`\`mermaid
graph LR
  Sender --> Inbox
  Inbox -->|one at a time| Agent
  Agent --> Transcript
\`\`\`

[^1]: On average, with one agent.`;

const ANSWERS = {
  [QUEUE]: READING,
  otherwise: SUMMARY,
  'Where does the nightly build spend its time?':
    'In linking: **26 of 41 minutes**. Each of the 34 integration tests is a separate binary, ' +
    'and each one links everything.',
  'One binary for all integration tests, then?':
    'Yes. One binary with a module per test links once; it should save about twenty minutes.',
  'What about the cache?':
    'Each runner has its own cache. Ask the operators whether it can be shared.',
  'Then start with the linker.':
    'With `lld` the one remaining link takes 40 s instead of 2 min. I set it for CI only:\n\n' +
    '```ini\n[target.x86_64-unknown-linux-gnu]\nrustflags = ["-C", "link-arg=-fuse-ld=lld"]\n```',
  'Look at client.rs: are the retries right?': {
    thought: 'The backoff doubles without a bound. I should also check how 429 is handled first.',
    text: REVIEW,
  },
  'Yes, with edit_file.': {
    text: 'I will change the function to take the server delay into account.',
    call: {
      name: 'edit_file',
      params: {
        path: 'src/client.rs',
        old_string: 'fn backoff(attempt: u32) -> Duration {\n    BASE * 2u32.pow(attempt)\n}',
        new_string:
          'fn backoff(attempt: u32, retry_after: Option<Duration>) -> Duration {\n' +
          '    retry_after.unwrap_or_else(|| BASE * 2u32.saturating_pow(attempt)).min(MAX)\n}',
      },
    },
  },
  'after edit_file':
    'Done: `backoff` is capped at 30 s and honors `Retry-After`. All client tests pass.',
  'What about jitter?':
    'Full jitter works best: wait a random time between zero and the capped backoff. It is ' +
    'one more line, and the tests need a seed.',
  'Leave jitter out, and write the changelog line.':
    '> client: retries wait at most 30 s and honor `Retry-After`\n\n' +
    'The line belongs under *Fixed*.',
};

/** A bar chart to attach: the duration of each step of a build. */
async function drawChart(browser) {
  const page = await browser.newPage({ viewport: { width: 560, height: 150 } });
  const bars = [
    ['compile', 190, '#5871e0'],
    ['link', 330, '#c0762b'],
    ['test', 90, '#2f9e6b'],
  ];
  const drawn = bars.map(
    ([name, width, fill], n) =>
      `<g transform="translate(0 ${n * 40})"><text x="16" y="42">${name}</text>` +
      `<rect x="90" y="24" width="${width}" height="26" rx="4" fill="${fill}"/>` +
      `<text x="${102 + width}" y="42">${Math.round(width / 12.7)} min</text></g>`,
  );
  await page.setContent(
    `<style>body{margin:0;background:#fff;font:15px system-ui}</style>` +
      `<svg width="560" height="150">${drawn.join('')}</svg>`,
  );
  const image = await page.screenshot();
  await page.close();
  return image.toString('base64');
}

/** A session with an image, a pinned turn and a compaction. */
async function createCompacted(server, browser) {
  const content = [
    { type: 'text', text: 'Where does the nightly build spend its time?' },
    { type: 'image', media_type: 'image/png', data: await drawChart(browser) },
  ];
  const session = await server.createSession({
    title: 'The nightly build',
    project: 'ci',
    message: { content },
  });
  await server.send(session.id, 'One binary for all integration tests, then?');
  await server.api(
    'POST',
    `/sessions/${session.id}/pins/${(await server.api('GET', `/sessions/${session.id}`)).head}`,
  );
  await server.send(session.id, 'What about the cache?');
  await server.send(session.id, '/compact decisions and open questions');
  await server.send(session.id, 'Then start with the linker.');
  return session;
}

/** A session that was rewound by two turns. */
async function createRewound(server) {
  const session = await server.createSession({
    title: 'Plan the release',
    project: 'parcel',
    message: 'Where does the nightly build spend its time?',
  });
  await server.send(session.id, 'One binary for all integration tests, then?');
  await server.send(session.id, 'What about the cache?');
  const { turns } = await server.api('GET', `/sessions/${session.id}/turns?order=asc`);
  await server.api('POST', `/sessions/${session.id}/rewind`, { turn_id: turns[0].id });
  return { session, turn: turns[1].id };
}

async function createSessions(server) {
  const project = 'parcel';
  await server.createSession({
    title: 'Why is the nightly build slow?',
    project: 'ci',
    provider_id: 'demo',
    message: 'long 60',
  });
  const archived = await server.createSession({
    title: 'Spike: gRPC gateway',
    project,
    message: 'A spike',
  });
  await server.api('POST', `/sessions/${archived.id}/archive`);
  await server.createSession({
    title: 'Release notes for 2.4',
    project: 'docs',
    provider_id: 'demo',
    message: 'help',
  });
  const task = await server.createSession({
    title: 'Add retry logic to the uploader',
    project,
    track_tasks: true,
    provider_id: 'demo',
    message: 'Add retry logic to the uploader, use a tool',
  });
  await server.send(task.id, 'Perfect, thanks!');
  await server.send(task.id, 'Now add a log line for each retry, use a tool');
  const permission = await server.createSession({
    title: 'Move the config to TOML',
    project,
    provider_id: 'demo',
    message: 'permission',
  });
  const tools = [
    { name: 'edit_file', description: 'changes a file', parameters: { type: 'object' } },
  ];
  const review = await server.createSession({
    title: 'Review the retry loop',
    label: 'review',
    project,
    message: { text: 'Look at client.rs: are the retries right?', tools },
  });
  await server.send(review.id, 'Yes, with edit_file.', { tools });
  const [suspension] = (await server.api('GET', `/sessions/${review.id}`)).suspensions;
  return { task, permission, review, suspension };
}

/** Answers the suspension and creates a fork. */
async function finishReview(server, { review, suspension }) {
  const [call] = suspension.tool_calls;
  await server.api('POST', `/sessions/${review.id}/resume`, {
    suspension_id: suspension.id,
    results: [{ tool_call_id: call.id, content: 'src/client.rs: 1 change' }],
  });
  await server.untilState(review.id, 'idle');
  const fork = await server.api('POST', `/sessions/${review.id}/fork`, { label: 'review-jitter' });
  await server.api('PATCH', `/sessions/${fork.id}`, { title: 'Review: with jitter' });
  await server.send(fork.id, 'What about jitter?');
  await server.send(review.id, 'Leave jitter out, and write the changelog line.');
}

/** Creates people, and deliveries of which one failed. Returns a session that was merged. */
async function createPeople(server, channel) {
  const add = async (entity, ...addresses) => {
    const { id } = await server.api('POST', '/entities', entity);
    for (const address of addresses)
      await server.api('POST', `/entities/${id}/identities`, address);
    return id;
  };
  await add({ name: 'Ada', owner: true }, { channel: 'irc', sender_id: 'ada' });
  const mom = await add(
    { name: 'Mom', relationship: 'family' },
    { channel: 'irc', account_id: 'home', sender_id: 'mom' },
    { channel: 'irc', sender_id: 'mom' },
    { channel: 'telegram', sender_id: '5550142', verified: false },
  );
  const mama = await add({ name: 'Mama' }, { channel: 'irc', sender_id: 'mama' });
  await add({ name: 'Mother', relationship: 'family' }, { channel: 'irc', sender_id: 'mother' });
  await server.receive('irc', 'mom', 'When does the train leave on Friday?');
  await server.receive('irc', 'mom', 'And the one back?');
  await server.receive('irc', 'mother', 'Which platform was it?');
  const merged = await server.receive('irc', 'mama', 'Did you book the train?');
  await server.api('POST', '/entities/merge', { into: mom, from: mama });
  const allDelivered = async () => {
    const { deliveries } = await server.api('GET', '/outbox?status=delivered');
    return deliveries.length === 4;
  };
  await until('the answers are delivered', allDelivered);
  channel.status = 410;
  await server.receive('irc', 'ada', 'Remind me of the backup tonight.');
  await until('one is dead', async () => {
    const { deliveries } = await server.api('GET', '/outbox?status=dead');
    return deliveries.length === 1;
  });
  await server.receive('matrix', '@guest:example.org', 'Is anybody there?');
  return merged;
}

async function shootChannels(browser, server, channel) {
  const merged = await createPeople(server, channel);
  const to = (hash) => `${server.url}/${hash}`;
  await shoot(browser, 'people', to('#/people'), async (page) => {
    await page.locator('.entity').nth(1).getByText('known-dm').first().waitFor();
  });
  await shoot(browser, 'merge', to('#/people'), async (page) => {
    await page
      .getByRole('button', { name: /^Merge/ })
      .nth(1)
      .click();
    const choice = page.getByRole('dialog').getByRole('combobox');
    await choice.selectOption({ label: 'Mother (person, irc mother)' });
    await page.getByRole('dialog').locator('.lines').waitFor();
  });
  await shoot(browser, 'details', to(`#/s/${merged.id}`), async (page) => {
    await page.locator('.row-footer').first().waitFor();
    await openPanel(page, 'Details');
    await page.getByRole('complementary').getByRole('link', { name: 'Mom' }).waitFor();
  });
  await shoot(browser, 'deliveries', to('#/deliveries'), async (page) =>
    page.locator('.delivery').nth(5).waitFor(),
  );
}

/** The panels have buttons, or entries of the menu where there is no room for buttons. */
async function openPanel(page, name) {
  const button = page.getByRole('button', { name }).first();
  if (await button.isVisible()) await button.click();
  else await openMenu(page, name);
}

const VIEWPORTS = {
  wide: { width: 1440, height: 900 },
  medium: { width: 1024, height: 768 },
  narrow: { width: 390, height: 844 },
};

/** The directories of the servers, which the screenshots show as that of a project. */
const serverDirs = [];
const SHOWN_DIR = '/home/ada/parcel';

async function startServer(...options) {
  const server = await Server.start(...options);
  serverDirs.push(server.dir);
  return server;
}

/** Replaces the temporary directories in the answers of the servers. */
async function hideDirectories(page) {
  await page.context().route(/\/api\/(?!.*\/?events)/, async (route) => {
    const answer = await route.fetch().catch(() => null);
    if (!answer) return route.abort().catch(() => undefined);
    if (!/json/.test(answer.headers()['content-type'] ?? '')) {
      return route.fulfill({ response: answer }).catch(() => undefined);
    }
    // The page may be closed meanwhile.
    let body = await answer.text().catch(() => '');
    for (const dir of serverDirs) {
      body = body.replaceAll(dir, SHOWN_DIR).replaceAll(basename(dir), basename(SHOWN_DIR));
    }
    await route.fulfill({ response: answer, body }).catch(() => undefined);
  });
}

async function shoot(browser, name, url, act, sizes = ['wide', 'medium', 'narrow']) {
  if (wantedViews.length > 0 && !wantedViews.includes(name)) return;
  for (const size of sizes) {
    // The dark theme differs only in its colors, so one width less is enough.
    for (const colorScheme of size === 'medium' ? ['light'] : ['light', 'dark']) {
      const viewport = VIEWPORTS[size];
      const page = await openPage(browser, 'about:blank', { viewport, colorScheme });
      await hideDirectories(page);
      await page.goto(url);
      await act(page, size);
      await page.evaluate(() => document.fonts.ready);
      // Playwright writes only PNG and JPEG. Chromium also writes WebP, which is much smaller.
      const session = await page.context().newCDPSession(page);
      const { data } = await session.send('Page.captureScreenshot', {
        format: 'webp',
        quality: QUALITY,
      });
      await writeFile(
        join(outdir, `${name}-${size}-${colorScheme}.webp`),
        Buffer.from(data, 'base64'),
      );
      await page.context().close();
    }
  }
}

/** The usage page, the setup page and the work of a task, on a server of their own. */
async function shootViews(browser) {
  const server = await startServer(DEMO_CONFIG + PRICES);
  try {
    const { task } = await recordWork(server);
    await shoot(browser, 'work', `${server.url}/#/task/${task.id}`, async (page) => {
      await page.getByRole('button', { name: 'fetch.rs changed' }).click();
      await page.locator('.event').nth(5).waitFor();
    });
    await shoot(browser, 'setup', `${server.url}/#/setup`, (page) =>
      page.getByRole('region', { name: 'Settings', exact: true }).waitFor(),
    );
    const local = await startModel({ models: ['gemma-9b'] });
    await shoot(browser, 'provider', `${server.url}/#/setup`, async (page) => {
      const form = page.getByRole('region', { name: 'Add a provider' });
      await form.getByLabel('Address').fill(local.url);
      await form.getByText('The server has gemma-9b.').waitFor();
      await form.getByRole('button', { name: 'Test' }).click();
      await form.getByText('It works.').waitFor();
    });
    await local.end();
    await importUsage(server, true);
    await shoot(browser, 'usage', `${server.url}/#/usage`, async (page) => {
      await page.locator('.tool-bars li').first().waitFor();
    });
  } finally {
    await server.end();
  }
}

await mkdir(outdir, { recursive: true });
const model = await startModel(ANSWERS);
const sonata = modelConfig('sonata', model.url, 'sonata-large');
const server = await startServer(DEMO_CONFIG + sonata + defaultProvider('sonata'));
const channel = await startChannel(204);
const channels = channelConfig('irc', channel.url);
const channelServer = await startServer(DEMO_CONFIG + channels, null, DM_POLICIES);
const { server: tokenServer } = await Server.startWithToken('read');
const browser = await launchBrowser();
try {
  await shootChannels(browser, channelServer, channel);
  await shootViews(browser);
  const sessions = await createSessions(server);
  const to = (hash) => `${server.url}/${hash}`;
  await shoot(
    browser,
    'form',
    to(`#/s/${sessions.review.id}`),
    async (page) => page.getByRole('textbox', { name: 'Result' }).waitFor(),
    ['wide'],
  );
  await finishReview(server, sessions);
  await shoot(browser, 'conversation', to(`#/s/${sessions.review.id}`), async (page) => {
    await untilRow(page, 'The line belongs under');
    await page.getByRole('button', { name: /edit_file/ }).click();
    await page.locator('.diff').waitFor();
  });
  await shoot(browser, 'answer', to(`#/s/${sessions.review.id}`), async (page) => {
    await page.locator('.row-footer').first().waitFor();
    await page.locator('.scroller').evaluate((scroller) => (scroller.scrollTop = 0));
    await page.locator('figure.code').waitFor();
  });
  const compacted = await createCompacted(server, browser);
  await shoot(browser, 'compaction', to(`#/s/${compacted.id}`), async (page) => {
    await untilRow(page, 'I set it for CI only');
    await page.getByRole('button', { name: /^Context compacted/ }).click();
    await page.locator('.compaction-marker .prose').waitFor();
    await page.locator('.row-footer').filter({ hasText: 'pinned' }).first().waitFor();
    await page
      .locator('.scroller')
      .evaluate((scroller) => (scroller.scrollTop = scroller.scrollHeight));
    await page.getByRole('button', { name: 'Jump to the end' }).waitFor({ state: 'detached' });
  });
  await shoot(
    browser,
    'picture',
    to(`#/s/${compacted.id}`),
    async (page) => {
      await untilRow(page, 'I set it for CI only');
      await page.locator('.scroller').evaluate((scroller) => (scroller.scrollTop = 0));
      await page.waitForFunction(() => document.querySelector('.image img')?.naturalWidth > 0);
    },
    ['wide'],
  );
  await shoot(browser, 'compact', to(`#/s/${compacted.id}`), async (page) => {
    await untilRow(page, 'I set it for CI only');
    await openMenu(page, 'Compact…');
    await page.getByLabel('Focus of the summary').fill('decisions');
  });
  await shoot(browser, 'branches', to(`#/s/${sessions.review.id}`), async (page) => {
    await page.locator('.row-footer').first().waitFor();
    await openPanel(page, 'Branches');
    await page.locator('.tree-excerpt').filter({ hasText: 'jitter' }).first().waitFor();
  });
  const rewound = await createRewound(server);
  await shoot(browser, 'rewound', to(`#/s/${rewound.session.id}/turn/${rewound.turn}`), (page) =>
    page.getByRole('button', { name: 'Restore' }).first().waitFor(),
  );
  await shoot(browser, 'compare', to('#/s/review/compare/review-jitter'), async (page) =>
    page.getByText('in common').waitFor(),
  );
  await shoot(browser, 'task', to(`#/s/${sessions.task.id}`), async (page) => {
    await page.locator('.row-footer').first().waitFor();
    await openPanel(page, /^Task/);
    await page.locator('.commit').waitFor();
  });
  await shoot(browser, 'permission', to(`#/s/${sessions.permission.id}`), async (page) =>
    page.getByRole('button', { name: 'Allow once' }).waitFor(),
  );
  await shoot(browser, 'list', to(''), async (page) => page.locator('.session').nth(4).waitFor());
  await shoot(browser, 'search', to(''), async (page) => {
    await page.locator('#search').fill('retry');
    await page.locator('.search-hits a').first().waitFor();
  });
  await shoot(browser, 'new', to('#/new'), async (page, size) => {
    await page.getByRole('heading', { name: 'New session' }).waitFor();
    if (size !== 'narrow') await page.locator('.session').nth(4).waitFor();
    await page.getByRole('combobox', { name: 'Provider' }).getByText('sonata').waitFor({
      state: 'attached',
    });
  });
  await shoot(browser, 'undo', to(`#/s/${sessions.review.id}`), async (page) => {
    await page.locator('.row-footer').first().waitFor();
    await openMenu(page, 'Delete…');
    await page.locator('.toast').waitFor();
  });
  await shoot(browser, 'palette', to(''), async (page) => {
    await page.locator('.session').nth(4).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('re');
    await page.getByRole('dialog').getByRole('option').nth(2).waitFor();
  });
  const reading = await server.createSession({ title: 'How long is the queue?', message: QUEUE });
  await shoot(browser, 'reading', to(`#/s/${reading.id}`), async (page) => {
    await page.locator('.row-text .diagram img').waitFor();
    await page.locator('.row-text math').first().waitFor();
  });
  await shoot(browser, 'commits', to('#/commits'), async (page) =>
    page.locator('.commit').first().waitFor(),
  );
  await shoot(
    browser,
    'keys',
    to(''),
    async (page) => {
      await page.locator('.session').first().waitFor();
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
    },
    ['wide'],
  );
  await shoot(browser, 'login', `${tokenServer.url}/`, async (page) =>
    page.getByLabel('Token').waitFor(),
  );
  const busy = await server.createSession({ title: 'A long answer', project: 'parcel' });
  await server.api('POST', `/sessions/${busy.id}/messages`, {
    text: 'slow 3000',
    provider_id: 'demo',
  });
  for (const text of ['And the tests?', 'Then write the changelog.'])
    await server.api('POST', `/sessions/${busy.id}/messages`, { text, queue_mode: 'queue' });
  await shoot(browser, 'busy', to(`#/s/${busy.id}`), async (page) => {
    await page.locator('.inbox li').nth(1).waitFor();
    await untilRow(page, DEMO.filler);
  });
} finally {
  await browser.close();
  await tokenServer.end();
  await channelServer.end();
  await channel.end();
  await server.end();
  await model.end();
}
let total = 0;
for (const file of await readdir(outdir)) total += (await stat(join(outdir, file))).size;
console.log(`${(await readdir(outdir)).length} screenshots, ${Math.round(total / 1024)} KiB`);
