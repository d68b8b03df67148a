// Details of the layout: touch targets, one row of controls, panels, hints, labels, connection state.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DEMO, launchBrowser, messageField, Server, untilRow, withPage } from './harness.mjs';

const TOUCH_MIN_PX = 40;

let browser, server;
before(async () => {
  browser = await launchBrowser();
  server = await Server.start();
});
after(async () => {
  await browser?.close();
  await server?.end();
});

const sized = (width, height = 844) => ({ viewport: { width, height } });
const onPage = (hash, act, options) => withPage(browser, `${server.url}/${hash}`, act, options);

/** In the page: the controls that are smaller than a finger. Links inside a text are no controls. */
const smallControls = (min) =>
  [...document.querySelectorAll('button, select, a[href], summary, input[type=search]')]
    .filter((element) =>
      element.checkVisibility({ visibilityProperty: true, opacityProperty: true }),
    )
    .filter((element) => !element.closest('.prose, .hint, .header-details, .skip-link, .brand'))
    .filter((element) => !element.matches('.skip-link, .title'))
    .map((element) => [element, element.closest('label') ?? element])
    .filter(([, target]) => {
      const { width, height } = target.getBoundingClientRect();
      return width > 0 && height < min;
    })
    .map(([element]) => `${element.className} ${element.textContent.trim().slice(0, 30)}`);

test('on a phone every control is large enough for a finger', async () => {
  const session = await server.createSession({ title: 'touch', message: 'think about it' });
  for (const hash of ['', '#/new', `#/s/${session.id}`]) {
    await onPage(
      hash,
      async (page) => {
        await (hash.includes('/s/') ? page.locator('.row-footer') : messageField(page)).waitFor();
        assert.deepEqual(await page.evaluate(smallControls, TOUCH_MIN_PX), [], hash);
      },
      sized(390),
    );
  }
});

test('at 390 pixels the controls of a run are one row each and nothing is cut off', async () => {
  const session = await server.createSession({ title: 'busy' });
  await server.api('POST', `/sessions/${session.id}/messages`, { text: 'slow 400' });
  await onPage(
    `#/s/${session.id}`,
    async (page) => {
      await untilRow(page, DEMO.filler);
      const tops = async (selector) =>
        new Set(
          await page.locator(selector).evaluateAll((all) =>
            all.map((one) => {
              const { top, height } = one.getBoundingClientRect();
              return Math.round(top + height / 2);
            }),
          ),
        );
      assert.equal((await tops('.delivery-choice label')).size, 1, 'the choices are one row');
      assert.equal((await tops('.composer-bar button, .composer-bar select')).size, 1);
      const right = await page
        .locator('.delivery-choice label')
        .last()
        .evaluate((label) => label.getBoundingClientRect().right);
      assert.ok(right <= 390 - 14, `the last choice ends at ${right}`);
      await page.getByRole('button', { name: 'Stop', exact: true }).click();
    },
    sized(390),
  );
});

test('the message field stays in its place when a run starts and ends', async () => {
  const session = await server.createSession({ title: 'steady', message: 'hello' });
  for (const width of [1440, 390]) {
    await onPage(
      `#/s/${session.id}`,
      async (page) => {
        await page.locator('.row-footer').first().waitFor();
        await page.locator('.context-meter').waitFor();
        const top = async () => (await messageField(page).boundingBox()).y;
        const before = await top();
        await messageField(page).fill('slow 300');
        await page.keyboard.press('Enter');
        await untilRow(page, DEMO.filler);
        await page.getByRole('radio', { name: 'Add to queue' }).waitFor({ state: 'attached' });
        assert.equal(await top(), before);
        await page.getByRole('button', { name: 'Stop', exact: true }).click();
        await server.untilState(session.id, 'idle');
        await page.getByRole('radio', { name: 'Add to queue' }).waitFor({ state: 'detached' });
        assert.equal(await top(), before);
      },
      sized(width),
    );
  }
});

test('the branches panel of an open first turn does not say that there are no messages', async () => {
  const session = await server.createSession({ title: 'first turn' });
  await server.api('POST', `/sessions/${session.id}/messages`, { text: 'slow 600' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await untilRow(page, DEMO.filler);
    await page.getByRole('button', { name: 'Branches' }).click();
    await page.locator('.panel').getByText('The first turn is not complete yet.').waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.locator('.tree circle').waitFor();
  });
});

test('at 1024 pixels the open panel does not cover Send', async () => {
  const session = await server.createSession({ title: 'with a panel', message: 'hello' });
  await onPage(
    `#/s/${session.id}`,
    async (page) => {
      await page.locator('.row-footer').waitFor();
      await page.getByRole('button', { name: 'Branches' }).click();
      const panel = await page.locator('.panel').boundingBox();
      const send = await page.getByRole('button', { name: 'Send', exact: true }).boundingBox();
      assert.ok(send.x + send.width <= panel.x, `${send.x + send.width} <= ${panel.x}`);
      await messageField(page).fill('still usable');
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      await untilRow(page, DEMO.quote('still usable'));
    },
    sized(1024, 768),
  );
});

test('Delete is set apart from Archive, and every entry of the menu has a label', async () => {
  const session = await server.createSession({ title: 'menu', message: 'hello' });
  await onPage(`#/s/${session.id}`, async (page) => {
    await page.locator('.row-footer').waitFor();
    await page.getByRole('button', { name: 'More actions' }).click();
    const item = (name) => page.getByRole('menuitem', { name });
    const [archive, remove] = [
      await item('Archive').boundingBox(),
      await item('Delete').boundingBox(),
    ];
    assert.ok(remove.y - (archive.y + archive.height) >= 4, 'there is a gap above Delete');
    for (const text of await page.getByRole('menuitem').allInnerTexts()) assert.match(text, /\w/);
    await page.keyboard.press('Escape');
    await item('Archive').waitFor({ state: 'detached' });
    const unnamed = await page
      .locator('button, a[href]')
      .evaluateAll(
        (all) =>
          all.filter((one) => !(one.ariaLabel || one.textContent.trim() || one.title)).length,
      );
    assert.equal(unnamed, 0);
  });
});

test('after a reconnect no text says that the server does not answer', async () => {
  const restarted = await Server.start();
  const session = await restarted.createSession({ title: 'restart', message: 'hello' });
  const act = async (page) => {
    await page.locator('.row-footer').waitFor();
    await restarted.kill();
    await page.getByText('Not connected.').waitFor();
    await messageField(page).fill('sent while offline');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('Cannot reach the server.').waitFor();
    await restarted.start();
    await page.getByText('Connected', { exact: true }).waitFor({ state: 'attached' });
    await page
      .getByText(/Cannot reach|Not connected/)
      .first()
      .waitFor({ state: 'detached' });
    assert.equal(await messageField(page).inputValue(), 'sent while offline');
    // The stream of a session that is no longer shown does not count.
    await page.goto(`${restarted.url}/#/`);
    await page.getByText('Connected', { exact: true }).waitFor({ state: 'attached' });
  };
  try {
    await withPage(browser, `${restarted.url}/#/s/${session.id}`, act);
  } finally {
    await restarted.end();
  }
});

test('the hints of the home hold where the focus is', () =>
  onPage('', async (page) => {
    const hint = page.locator('.keyboard-hint');
    await hint.getByText('move through the sessions').waitFor();
    await page.keyboard.press('n');
    await hint.getByText('leaves the field').waitFor();
    await page.keyboard.press('Escape');
    await hint.getByText('move through the sessions').waitFor();
    await page.keyboard.press('j');
    await page.locator('.session.current').waitFor();
  }));
