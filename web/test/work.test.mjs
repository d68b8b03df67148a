// The work of a task and of a commit: files with diffs, commands, questions and who answered; the
// files that a turn changed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkView } from './axe-check.mjs';
import {
  DEMO_CONFIG,
  defaultProvider,
  launchBrowser,
  modelConfig,
  Server,
  startModel,
  until,
  untilRow,
  withPage,
} from './harness.mjs';
import { recordWork } from './work-fixture.mjs';

const EDIT = {
  name: 'edit',
  params: { path: 'src/fetch.rs', old_string: 'get()', new_string: 'retry(get)' },
};

let browser, server, model, task, session;
before(async () => {
  browser = await launchBrowser();
  model = await startModel({
    'change a file': { text: 'I edit.', call: EDIT },
    'after edit': {
      call: { name: 'write_file', params: { path: 'NOTES.md', content: 'one\ntwo\n' } },
    },
    'after write_file': 'Both are written.',
  });
  const config = DEMO_CONFIG + modelConfig('echo', model.url, 'echo-1') + defaultProvider('demo');
  server = await Server.start(config);
  ({ task, session } = await recordWork(server));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);
const timeline = (page) => page.getByRole('region', { name: 'Timeline' });

test('a task has a timeline of files, commands, questions and answers', async () => {
  await onPage(`#/task/${task.id}`, async (page) => {
    const files = page.getByRole('region', { name: 'Files' });
    await files.getByRole('heading', { name: '1 file changed, 0 only read' }).waitFor();
    await files.getByRole('button', { name: 'fetch.rs changed' }).click();
    await files.locator('.diff .removed').getByText('get()').waitFor();
    await files.locator('.diff .added').getByText('retry(get)').waitFor();
    assert.match(await files.innerText(), /\+1001 −1 lines/);

    await timeline(page).getByText('Which number is the default?').waitFor();
    const answer = timeline(page).locator('.event.answer').filter({ hasText: 'Three' });
    await answer.getByRole('link', { name: 'answered by you' }).waitFor();
    const permission = timeline(page).locator('.event.permission');
    assert.match(await permission.innerText(), /Allow once\s+answered by/);
    await page.getByRole('button', { name: 'Commands' }).click();
    await timeline(page).getByRole('button', { name: 'cargo test exit 1' }).click();
    await timeline(page).getByText('The output was not recorded.').waitFor();
    assert.equal(await timeline(page).locator('.event').count(), 1);
    await page.getByRole('button', { name: 'Questions and permissions' }).click();
    await answer.getByRole('link', { name: 'answered by you' }).click();
    await untilRow(page, 'Three is the default');
  });
});

test('answered permissions stay visible in the transcript', async () => {
  await onPage(`#/s/${session.id}`, async (page) => {
    const notice = page.locator('.notice').filter({ hasText: 'Permission asked' });
    await notice.waitFor();
    assert.match(await notice.innerText(), /Allow once\s+by /);
  });
});

test('an open task is followed, and its commit shows the same work', async () => {
  await onPage(`#/task/${task.id}`, async (page) => {
    await timeline(page).locator('.event').first().waitFor();
    server.runCtx('stage', '--session', session.label, 'note', 'Written while it is shown');
    await timeline(page).getByText('Written while it is shown').waitFor();
    await server.api('POST', `/sessions/${session.id}/task/confirm`);
    await page.getByRole('link', { name: /^Commit [0-9a-f]{10}$/ }).click();
    await page.getByRole('main', { name: 'Commit' }).waitFor();
    await page.getByRole('button', { name: 'fetch.rs changed' }).waitFor();
    await timeline(page).getByText('Which number is the default?').waitFor();
    await page.getByRole('link', { name: 'All commits' }).click();
    await page.locator('.commit').first().click();
    await page.getByRole('main', { name: 'Commit' }).waitFor();
  });
});

test('a turn says how many files it changed and shows the diffs', async () => {
  const tools = ['edit', 'write_file'].map((name) => ({ name, description: name, parameters: {} }));
  const made = await server.createSession({ title: 'edits', provider_id: 'echo' });
  await server.send(made.id, 'change a file', { tools });
  for (;;) {
    const { suspensions } = await until('the run rests', async () => {
      const found = await server.api('GET', `/sessions/${made.id}`);
      return found.state !== 'running' && found;
    });
    if (suspensions.length === 0) break;
    const [{ id, tool_calls }] = suspensions;
    const results = tool_calls.map((call) => ({ tool_call_id: call.id, content: 'ok' }));
    await server.api('POST', `/sessions/${made.id}/resume`, { suspension_id: id, results });
  }
  await onPage(`#/s/${made.id}`, async (page) => {
    await page.getByRole('button', { name: '2 files changed +3 −1' }).click();
    const files = page.getByRole('list', { name: 'Changed files' });
    await files.getByRole('button', { name: 'src/fetch.rs' }).click();
    await files.locator('.added').getByText('retry(get)').waitFor();
    await files.getByRole('button', { name: 'NOTES.md +2 −0' }).waitFor();
  });
});

test('axe finds no violations on the pages of tasks and commits', async () => {
  await checkView(browser, 'task', `${server.url}/#/task/${task.id}`, async (page) => {
    await timeline(page).locator('.event').first().waitFor();
    await page.getByRole('button', { name: 'fetch.rs changed' }).click();
    await page.locator('.diff').first().waitFor();
  });
  const { commits } = await server.api('GET', '/commits');
  await checkView(browser, 'commit', `${server.url}/#/commits/${commits[0].id}`, (page) =>
    timeline(page).locator('.event').first().waitFor(),
  );
});
