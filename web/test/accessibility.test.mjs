// axe finds no accessibility violations in any view.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import {
  channelConfig,
  defaultProvider,
  DEMO,
  DEMO_CONFIG,
  DM_POLICIES,
  launchBrowser,
  modelConfig,
  newContext,
  openMenu,
  PNG,
  Server,
  startChannel,
  startModel,
  TIMEOUT_MS,
  untilRow,
} from './harness.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const MARKDOWN = `## Plan

Some *words* and \`code\`, a [link](https://example.org).

\`\`\`rust
fn main() {}
\`\`\`

- one
- two

| a | b |
|---|---|
| 1 | 2 |

> quoted with a formula $x^2$ and a note[^1]

\`\`\`mermaid
graph LR; A-->B
\`\`\`

[^1]: The note.`;

const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };

let browser, server, tokenServer, model, channel;
before(async () => {
  model = await startModel();
  browser = await launchBrowser();
  const echo = modelConfig('echo', model.url, 'echo-1');
  channel = await startChannel(410);
  const config = DEMO_CONFIG + echo + defaultProvider('echo') + channelConfig('irc', channel.url);
  server = await Server.start(config, null, DM_POLICIES);
  ({ server: tokenServer } = await Server.startWithToken('read'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await tokenServer?.end();
  await model?.end();
  await channel?.end();
});

/** Creates the sessions that the views show. */
async function createSessions() {
  const demo = { provider_id: 'demo' };
  const body = { title: 'conversation', label: 'axe-main', message: MARKDOWN };
  const conversation = await server.createSession(body);
  for (const text of ['think', 'use a tool', 'fail'])
    await server.send(conversation.id, text, demo);
  const forkPath = `/sessions/${conversation.id}/fork`;
  const fork = await server.api('POST', forkPath, { label: 'axe-fork' });
  await server.send(fork.id, 'another way');

  const image = { type: 'image', media_type: 'image/png', data: PNG.toString('base64') };
  const content = [{ type: 'text', text: 'hello' }, image];
  const compacted = await server.createSession({
    title: 'compacted',
    ...demo,
    message: { content },
  });
  for (const text of ['hello again', '/compact', 'and on']) await server.send(compacted.id, text);
  const { head } = await server.api('GET', `/sessions/${compacted.id}`);
  await server.api('POST', `/sessions/${compacted.id}/pins/${head}`);

  const permission = await server.createSession({ title: 'asks', ...demo, message: 'permission' });
  const tools = [{ name: 'get_weather', description: 'weather', parameters: { type: 'object' } }];
  const message = { text: 'get_weather {"city": "Oslo"}', tools };
  const form = await server.createSession({ title: 'form', ...demo, message });

  const work = { title: 'task', track_tasks: true, ...demo, message: 'Add a retry with a tool' };
  const task = await server.createSession(work);
  await server.send(task.id, 'Perfect, thanks!');
  await server.send(task.id, 'Now add a log with a tool');

  const decided = await server.createSession({ title: 'decided', ...demo, message: 'permission' });
  const [asked] = (await server.api('GET', `/sessions/${decided.id}`)).suspensions;
  const decision = { suspension_id: asked.id, choice: 'allow_once' };
  await server.api('POST', `/sessions/${decided.id}/resume`, decision);
  await server.untilState(decided.id, 'idle');
  await server.send(decided.id, '/help');

  const inbox = await server.createSession({ title: 'inbox' });
  const inboxPath = `/sessions/${inbox.id}/messages`;
  await server.api('POST', inboxPath, { text: 'slow 2000', ...demo });
  await server.api('POST', inboxPath, { text: 'waits', queue_mode: 'queue', ...demo });

  const owner = { name: 'Mom', relationship: 'family', owner: true };
  const mom = await server.api('POST', '/entities', owner);
  const address = { channel: 'irc', sender_id: 'mom' };
  await server.api('POST', `/entities/${mom.id}/identities`, address);
  const claimed = { channel: 'sms', sender_id: '42', verified: false };
  await server.api('POST', `/entities/${mom.id}/identities`, claimed);
  await server.api('POST', '/entities', { name: 'Mama' });
  const routed = await server.receive('irc', 'mom', 'hello');
  await server.receive('matrix', 'stranger', 'hello');
  return { routed, conversation, compacted, permission, decided, form, task, inbox };
}

/** All views. `narrow` views are also checked in a narrow window. */
async function createViews() {
  const sessions = await createSessions();
  const at = (session) => `${server.url}/#/s/${session.id}`;
  const button = (page, name) => page.getByRole('button', { name });
  return [
    {
      name: 'session list',
      url: `${server.url}/`,
      open: (page) => page.locator('.session').first().waitFor(),
      narrow: true,
    },
    {
      name: 'search results',
      url: `${server.url}/`,
      open: async (page) => {
        await page.locator('#search').fill('words');
        await page.locator('.search-hits li').first().waitFor();
      },
    },
    {
      name: 'new session',
      url: `${server.url}/#/new`,
      open: (page) => page.getByRole('heading', { name: 'New session' }).waitFor(),
      narrow: true,
    },
    {
      name: 'conversation',
      url: at(sessions.conversation),
      open: async (page) => {
        await untilRow(page, DEMO.clock);
        await button(page, /demo_clock/).click();
        await button(page, /^Thought/).click();
      },
      narrow: true,
    },
    {
      name: 'compaction marker',
      url: at(sessions.compacted),
      open: async (page) => {
        await page.getByText('pinned', { exact: true }).waitFor();
        await button(page, /^Context compacted/).click();
        await page.locator('.compaction-marker').getByText(DEMO.summary).waitFor();
      },
      narrow: true,
    },
    {
      name: 'compact dialog',
      url: at(sessions.compacted),
      open: async (page) => {
        await openMenu(page, 'Compact…');
        await page.getByLabel('Focus of the summary').waitFor();
      },
    },
    {
      name: 'branches panel',
      url: at(sessions.conversation),
      open: async (page) => {
        await button(page, 'Branches').click();
        await page.locator('.tree circle').nth(1).waitFor();
      },
    },
    {
      name: 'permission request',
      url: at(sessions.permission),
      open: (page) => button(page, 'Allow once').waitFor(),
      narrow: true,
    },
    {
      name: 'permission record and commands',
      url: at(sessions.decided),
      open: async (page) => {
        await untilRow(page, 'Permission asked');
        await page.getByRole('textbox', { name: 'Message', exact: true }).fill('/');
        await page.getByRole('listbox', { name: 'Commands' }).waitFor();
      },
      narrow: true,
    },
    {
      name: 'tool result form',
      url: at(sessions.form),
      open: (page) => page.getByRole('textbox', { name: 'Result' }).waitFor(),
    },
    {
      name: 'task panel',
      url: at(sessions.task),
      open: async (page) => {
        await page.locator('.notice').waitFor();
        await button(page, 'Task: pending complete').click();
        await page.locator('.commit').waitFor();
      },
    },
    {
      name: 'inbox',
      url: at(sessions.inbox),
      open: (page) => page.locator('.inbox li').waitFor(),
    },
    {
      name: 'comparison',
      url: `${server.url}/#/s/axe-main/compare/axe-fork`,
      open: (page) => page.getByText('in common').waitFor(),
      narrow: true,
    },
    {
      name: 'controls of a run',
      url: at(sessions.inbox),
      open: (page) => page.getByRole('radio', { name: 'Add to queue' }).waitFor(),
      narrow: true,
    },
    {
      name: 'menu, toast and the editor of a message',
      url: at(sessions.conversation),
      open: async (page) => {
        await untilRow(page, DEMO.clock);
        await page.keyboard.press('e');
        await page.locator('.toast').waitFor();
        await page.keyboard.press('z');
        await page.locator('.toast').waitFor({ state: 'detached' });
        await page.keyboard.press(']');
        await page.locator('.row-footer').last().waitFor();
        await button(page, 'Edit and resend as a branch').first().click();
        await page.getByLabel('Edited message').waitFor();
        await button(page, 'More actions').click();
        await page.getByRole('menu').waitFor();
      },
      narrow: true,
    },
    {
      name: 'context meter',
      url: at(sessions.compacted),
      open: async (page) => {
        await page.locator('.context-meter').getByRole('button').click();
        await page.locator('.context-meter p').waitFor();
      },
    },
    {
      name: 'palette',
      url: `${server.url}/`,
      open: async (page) => {
        await page.locator('.session').first().waitFor();
        await page.keyboard.press('Control+k');
        await page.getByRole('dialog').getByRole('option').first().waitFor();
      },
      narrow: true,
    },
    {
      name: 'deletion that can be undone',
      url: at(sessions.decided),
      open: async (page) => {
        await untilRow(page, 'Permission asked');
        await openMenu(page, 'Delete…');
        await page.locator('.toast').waitFor();
      },
      narrow: true,
    },
    {
      name: 'commits',
      url: `${server.url}/#/commits`,
      open: (page) => page.locator('.commit').first().waitFor(),
    },
    {
      name: 'people',
      url: `${server.url}/#/people`,
      open: async (page) => {
        await page.getByText('Add a person, agent or service').click();
        await page.getByText('Link an address').first().click();
        await button(page, 'Unlink irc mom').click();
        await page.getByText('policy owner-dm').waitFor();
      },
      narrow: true,
    },
    {
      name: 'merge dialog',
      url: `${server.url}/#/people`,
      open: async (page) => {
        await button(page, 'Merge another one').first().click();
        await page.getByRole('combobox').last().selectOption({ index: 1 });
        await page.getByText('This cannot be undone.').waitFor();
      },
      narrow: true,
    },
    {
      name: 'details panel',
      url: at(sessions.routed),
      open: async (page) => {
        const details = button(page, 'Details (i)');
        await page.locator('.row-footer').waitFor();
        if (await details.isVisible()) await details.click();
        else await openMenu(page, 'Details');
        await page.getByRole('link', { name: 'Mom' }).waitFor();
      },
      narrow: true,
    },
    {
      name: 'deliveries',
      url: `${server.url}/#/deliveries`,
      open: async (page) => {
        await button(page, 'Retry').waitFor();
        await page.getByText('no_channel').waitFor();
      },
      narrow: true,
    },
    {
      name: 'help',
      url: `${server.url}/`,
      open: async (page) => {
        await page.locator('.session').first().waitFor();
        await page.keyboard.press('?');
        await page.getByRole('dialog').waitFor();
      },
    },
    {
      name: 'missing session',
      url: `${server.url}/#/s/never-created`,
      open: (page) => page.getByText('Session not available').waitFor(),
    },
    {
      name: 'login',
      url: `${tokenServer.url}/`,
      open: (page) => page.getByLabel('Token').waitFor(),
      narrow: true,
    },
  ];
}

async function violations(page, only = null) {
  const options = { resultTypes: ['violations'], ...(only && { runOnly: only }) };
  const found = await page.evaluate((options) => window.axe.run(document, options), options);
  return found.violations.map(({ id, nodes }) => {
    const details = nodes
      .slice(0, 3)
      .map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`);
    return `${id}: ${details.join(' | ')}`;
  });
}

async function check({ name, url, open }, viewport) {
  // axe is injected as a script, which the content security policy of the page would block.
  const options = { viewport, colorScheme: 'light', bypassCSP: true };
  const context = await newContext(browser, options);
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  await page.goto(url);
  await open(page);
  await page.evaluate(axe);
  assert.deepEqual(await violations(page), [], `${name}, light, ${viewport.width}`);
  // The dark theme differs only in its colors.
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await violations(page, ['color-contrast']);
  assert.deepEqual(dark, [], `${name}, dark, ${viewport.width}`);
  await context.close();
}

test('axe finds no violations in any view, light and dark, wide and narrow', async () => {
  const views = await createViews();
  for (const view of views) await check(view, WIDE);
  for (const view of views.filter((view) => view.narrow)) await check(view, NARROW);
});
