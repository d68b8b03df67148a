// Setup: the way from "No model is set up" to an answer, settings, the choice of a directory, and
// export.
import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { checkView } from './axe-check.mjs';
import {
  launchBrowser,
  sendMessage,
  Server,
  startModel,
  until,
  untilRow,
  withPage,
} from './harness.mjs';

let browser, server, model;
before(async () => {
  browser = await launchBrowser();
  model = await startModel();
  server = await Server.start();
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const onPage = (hash, act) => withPage(browser, `${server.url}/${hash}`, act);
const configOf = (of) => readFile(join(of.dir, 'data/ctx.toml'), 'utf8');

test('a new user sets up a local model and talks to it without a restart', async () => {
  await onPage('', async (page) => {
    await page.getByRole('link', { name: 'Set up a model or an agent' }).click();
    await page.getByText('No model is set up.').waitFor();
    const form = page.getByRole('region', { name: 'Add a provider' });
    await form.getByLabel('Address').fill(model.url);
    assert.equal(await form.getByRole('button', { name: 'Write to ctx.toml' }).isEnabled(), false);
    const test = form.getByRole('button', { name: 'Test' });
    assert.equal(await test.isEnabled(), false);
    await form.getByText('Enter a model to test and write it.').waitFor();
    await form.getByLabel('Model', { exact: true }).fill('tiny-1');
    await test.click();
    await form.getByText('It works.').waitFor();
    await form.getByRole('button', { name: 'Write to ctx.toml' }).click();
    const written = page.getByText('It is in use now.');
    await written.waitFor();
    await untilInView(page, written);
    assert.match(await page.locator('[role=status].visually-hidden').innerText(), /^Written to /);
    await page.getByText('New sessions use local.').waitFor();
    const text = await configOf(server);
    assert.match(text, /\[providers\.local\]\nkind = "openai"\n/);
    assert.match(text, /\[defaults\]\nprovider = "local"/);
    await page.getByRole('link', { name: 'Start a session' }).click();
    await sendMessage(page, 'a question for the new model');
    await untilRow(page, 'tiny-1');
    await page.locator('.row-footer').waitFor();
  });
});

const untilInView = (page, element) =>
  until('it is in view', () =>
    element.evaluate((one) => {
      const { top, bottom } = one.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    }),
  );

test('the only model of a server is filled in, and an error is shown where the button is', async () => {
  const single = await startModel({ models: ['only-1'] });
  try {
    await onPage('#/setup', async (page) => {
      const form = page.getByRole('region', { name: 'Add a provider' });
      await form.getByLabel('Address').fill(single.url);
      await until('the model is filled in', async () => {
        const value = await form.getByLabel('Model', { exact: true }).inputValue();
        return value === 'only-1';
      });
      assert.equal(await form.getByRole('button', { name: 'Test' }).isEnabled(), true);
      await form.getByLabel('Name', { exact: true }).fill('not a name!');
      await form.getByRole('button', { name: 'Write to ctx.toml' }).click();
      const error = form.getByRole('alert');
      await error.waitFor();
      await untilInView(page, error);
    });
  } finally {
    await single.end();
  }
});

test('an API key is written as a variable only, and an agent as a command', async () => {
  await onPage('#/setup', async (page) => {
    const form = page.getByRole('region', { name: 'Add a provider' });
    await form.getByLabel('API key').check();
    const variable = form.getByLabel('Name of the environment variable');
    assert.equal(await variable.inputValue(), 'OPENAI_API_KEY');
    await variable.fill('sk-not-a-variable');
    await form.getByRole('button', { name: 'Write to ctx.toml' }).click();
    await page.getByText('is not the name of an environment variable').waitFor();
    assert.doesNotMatch(await configOf(server), /sk-/);
    await variable.fill('SOME_KEY');
    await form.getByRole('button', { name: 'Write to ctx.toml' }).click();
    const card = page.getByRole('region', { name: 'Configured providers' });
    await card.getByText('SOME_KEY (not set in the environment of ctx serve)').waitFor();
    await form.getByLabel('Agent').check();
    await form.getByLabel('Command').fill('/no/such/agent --acp "two words"');
    await form.getByRole('button', { name: 'Test' }).click();
    await form.locator('.test-result .error-message').waitFor();
    await form.getByLabel('Use it for new sessions').uncheck();
    await form.getByRole('button', { name: 'Write to ctx.toml' }).click();
    await card.getByText('/no/such/agent --acp "two words"').waitFor();
    assert.match(await configOf(server), /command = \["\/no\/such\/agent", "--acp", "two words"\]/);
    await card.getByRole('button', { name: 'Remove agent' }).click();
    await card.getByText('/no/such/agent --acp').waitFor({ state: 'detached' });
    assert.doesNotMatch(await configOf(server), /agent/);
  });
});

test('settings are written, and the page says that they need a restart', async () => {
  await onPage('#/setup', async (page) => {
    const settings = page.getByRole('region', { name: 'Settings', exact: true });
    const archive = settings.getByLabel('Archive an idle session after');
    assert.equal(await archive.inputValue(), '30d');
    await archive.fill('soon');
    await settings.getByRole('button', { name: 'Save settings' }).click();
    await settings.getByText('invalid duration').waitFor();
    assert.equal(await archive.inputValue(), 'soon', 'what was typed stays');
    await archive.fill('60d');
    await settings.getByRole('button', { name: 'Save settings' }).click();
    await untilInView(page, settings.getByText('Restart ctx serve to apply it.'));
    assert.match(await configOf(server), /session_archive = "60d"/);
    await settings.getByLabel('Theme of this browser').selectOption('dark');
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  });
});

test('the working directory of a session is chosen from a list', async () => {
  await mkdir(join(server.dir, 'work/project/.git'), { recursive: true });
  await onPage('#/new', async (page) => {
    await page.getByText('Title, project, directory').click();
    await page.getByRole('button', { name: 'Choose… a working directory' }).click();
    const dialog = page.getByRole('dialog', { name: 'Working directory' });
    await dialog.getByRole('button', { name: server.dir }).click();
    await dialog.getByRole('button', { name: 'work', exact: true }).click();
    await dialog.getByRole('button', { name: 'project repository' }).click();
    await dialog.getByText('No directories inside.').waitFor();
    await dialog.getByRole('button', { name: 'Use this directory' }).click();
    const chosen = await page.getByRole('textbox', { name: 'Working directory' }).inputValue();
    assert.ok(chosen.endsWith('/work/project'), chosen);
  });
});

// The route of the documents is stubbed here; `ctx export` has the tests of their content.
test('a session is exported in a chosen format, redacted unless the user says otherwise', async () => {
  const session = await server.createSession({ title: 'To: share / it', provider_id: 'demo' });
  await onPage(`#/s/${session.id}`, async (page) => {
    const asked = [];
    await page.route(/\/api\/sessions\/[^/]+\/export\?/, (route) => {
      asked.push(new URL(route.request().url()).search);
      return route.fulfill({ contentType: 'text/html', body: '<!doctype html><p>shared</p>' });
    });
    const save = async (choose) => {
      await page.getByRole('button', { name: 'Export and share' }).click();
      const dialog = page.getByRole('dialog', { name: 'Export and share' });
      await choose(dialog);
      const waiting = page.waitForEvent('download');
      await dialog.getByRole('button', { name: 'Download' }).click();
      await dialog.waitFor({ state: 'detached' });
      return (await waiting).suggestedFilename();
    };
    assert.equal(await save(async () => undefined), 'To-share-it.html');
    const markdown = async (dialog) => {
      await dialog.getByLabel('Markdown').check();
      await dialog.getByLabel('Replace keys, tokens and passwords').uncheck();
    };
    assert.equal(await save(markdown), 'To-share-it.md');
    assert.deepEqual(asked, ['?to=html&redact=true', '?to=markdown']);
    // The bundle comes from the server.
    assert.equal(await save((dialog) => dialog.getByLabel('Bundle').check()), 'To-share-it.ctx');
  });
});

test('axe finds no violations on the setup page and in its dialogs', async () => {
  await checkView(browser, 'setup', `${server.url}/#/setup`, (page) =>
    page.getByRole('region', { name: 'Settings', exact: true }).waitFor(),
  );
  await checkView(browser, 'directories', `${server.url}/#/new`, async (page) => {
    await page.getByText('Title, project, directory').click();
    await page.getByRole('button', { name: 'Choose… a working directory' }).click();
    await page.getByRole('dialog').getByRole('button', { name: server.dir }).waitFor();
  });
  const session = await server.createSession({ title: 'axe', provider_id: 'demo' });
  await checkView(browser, 'export', `${server.url}/#/s/${session.id}`, async (page) => {
    await page.getByRole('button', { name: 'Export and share' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Download' }).waitFor();
  });
});
