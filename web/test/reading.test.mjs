// Reading: tables, formulas, diagrams, footnotes, right-to-left text, long titles, comparison.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  defaultProvider,
  DEMO_CONFIG,
  launchBrowser,
  modelConfig,
  Server,
  startModel,
  untilRow,
  withPage,
} from './harness.mjs';

const TABLE = `| configuration value | responsibility | milliseconds |
|---|---|---|
| ${'internationalization '.repeat(3)} | authentication-and-authorization | 12 |`;
const FORMULAS =
  'The sum $\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$ costs $5, not $HOME.\n\n$$\\int_0^1 x^2\\,dx$$';
const DIAGRAM = '```mermaid\ngraph LR\n  Client --> Server\n  Server --> Store\n```';
const FOOTNOTE = 'A claim[^src] without a link.\n\n[^src]: The *source* of it.';
const RIGHT_TO_LEFT = 'مرحبا بالعالم\n\nleft to right';

let browser, server, model;
before(async () => {
  browser = await launchBrowser();
  model = await startModel({
    'first question': 'The retry loop waits four seconds before each attempt.',
    'second question': 'The retry loop waits nine seconds before each attempt.',
  });
  const echo = modelConfig('echo', model.url, 'echo-1');
  server = await Server.start(DEMO_CONFIG + echo + defaultProvider('echo'));
});
after(async () => {
  await browser?.close();
  await server?.end();
  await model?.end();
});

const NARROW = { viewport: { width: 390, height: 844 } };
const onPage = (hash, act, options) => withPage(browser, `${server.url}/${hash}`, act, options);
/** Opens a session whose answer is the text. */
async function onAnswer(text, act, options) {
  const session = await server.createSession({ title: 'reading', message: text });
  await onPage(
    `#/s/${session.id}`,
    async (page) => {
      await page.locator('.row-footer').waitFor();
      await act(page);
    },
    options,
  );
}

test('a wide table scrolls and does not break inside words', () =>
  onAnswer(
    TABLE,
    async (page) => {
      const box = page.locator('.row-text .table-scroll');
      const { scroll, client } = await box.evaluate((element) => ({
        scroll: element.scrollWidth,
        client: element.clientWidth,
      }));
      assert.ok(scroll > client, `${scroll} > ${client}`);
      const wordFits = await box.evaluate((element) => {
        const cell = element.querySelector('tbody td');
        const range = new Range();
        const text = cell.firstChild;
        range.setStart(text, 0);
        range.setEnd(text, 'internationalization'.length);
        return range.getClientRects().length === 1;
      });
      assert.ok(wordFits, 'a word is on one line');
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      assert.equal(overflow, false, 'the page itself does not scroll');
    },
    NARROW,
  ));

test('formulas are drawn by a part of the page that is loaded only then', async () => {
  await onAnswer('no formula here', async (page) => {
    const loaded = () => performance.getEntriesByType('resource').map((entry) => entry.name);
    const isRenderer = (name) => /math-|diagram-frame/.test(name);
    assert.deepEqual((await page.evaluate(loaded)).filter(isRenderer), []);
  });
  await onAnswer(FORMULAS, async (page) => {
    const answer = page.locator('.row-text');
    await answer.locator('math').nth(1).waitFor();
    assert.equal(await answer.locator('.math').count(), 2, 'prices and variables are text');
    await answer.getByText('costs $5, not $HOME').waitFor();
    await answer.locator('.math.display math').waitFor();
  });
});

test('a diagram is drawn in a sandbox and shown as an image', () =>
  onAnswer(DIAGRAM, async (page) => {
    const image = page.locator('.row-text .diagram img');
    await image.waitFor();
    await page.waitForFunction(() => {
      const drawn = document.querySelector('.row-text .diagram img');
      return drawn.complete && drawn.naturalWidth > 50;
    });
    const frame = page.locator('iframe');
    assert.equal(await frame.getAttribute('sandbox'), 'allow-scripts');
    await page.locator('.row-text').getByRole('button', { name: 'Show the source' }).click();
    await page.locator('.row-text .code').getByText('Client --> Server').waitFor();
  }));

test('a wrong diagram is shown as its source with the reason', () =>
  onAnswer('```mermaid\nno such diagram\n```', async (page) => {
    await page.locator('.row-text').getByText('This diagram cannot be drawn').waitFor();
    await page.locator('.row-text .code').getByText('no such diagram').waitFor();
  }));

test('footnotes and right-to-left text are laid out as such', async () => {
  await onAnswer(FOOTNOTE, async (page) => {
    await page.locator('.row-text .footnote-reference').getByText('src').waitFor();
    const note = page.locator('.row-text .footnote');
    assert.equal(await note.innerText(), 'src The source of it.');
    await note.locator('em').waitFor();
  });
  await onAnswer(RIGHT_TO_LEFT, async (page) => {
    const direction = (text) =>
      page
        .locator('.row-text p')
        .filter({ hasText: text })
        .evaluate((paragraph) => getComputedStyle(paragraph).direction);
    assert.equal(await direction('مرحبا'), 'rtl');
    assert.equal(await direction('left to right'), 'ltr');
  });
});

test('a long title leaves room for the controls at every width', async () => {
  const title = 'a title of many words '.repeat(12).trim();
  const session = await server.createSession({ title, message: 'hello' });
  for (const width of [1440, 1024, 390]) {
    await onPage(
      `#/s/${session.id}`,
      async (page) => {
        await page.locator('.row-footer').waitFor();
        const more = await page.getByRole('button', { name: 'More actions' }).boundingBox();
        assert.ok(more.x + more.width <= width, `the menu ends at ${more.x + more.width}`);
        const shown = await page.locator('.header-bar .title').getAttribute('title');
        assert.ok(shown.startsWith(title), 'the tooltip has the whole title');
      },
      { viewport: { width, height: 800 } },
    );
  }
});

async function branches() {
  const left = await server.createSession({ title: 'left branch', message: 'shared start' });
  const fork = await server.api('POST', `/sessions/${left.id}/fork`, {});
  await server.api('PATCH', `/sessions/${fork.id}`, { title: 'right branch' });
  await server.send(left.id, 'first question');
  await server.send(fork.id, 'second question');
  return [left, fork];
}

test('a comparison has a heading per branch and marks the words that differ', async () => {
  const [left, right] = await branches();
  await onPage(`#/s/${left.id}/compare/${right.id}`, async (page) => {
    await page.getByText('1 turn in common').waitFor();
    for (const name of ['left branch', 'right branch']) {
      await page.getByRole('heading', { name }).waitFor();
    }
    // "first" and "second", "four" and "nine".
    await page.getByText('Turn 2 · 4 words differ').waitFor();
    const marked = await page.evaluate(() =>
      [...CSS.highlights.get('difference')].map((range) => range.toString()).sort(),
    );
    assert.deepEqual(marked, ['first', 'four', 'nine', 'second']);
    const [a, b] = await Promise.all(
      ['.side.left', '.side.right'].map((side) => page.locator(side).first().boundingBox()),
    );
    assert.ok(a.x + a.width <= b.x, 'side by side');
  });
});

test('at 390 pixels a switcher shows one branch at a time', async () => {
  const [left, right] = await branches();
  await onPage(
    `#/s/${left.id}/compare/${right.id}`,
    async (page) => {
      await untilRow(page, 'first question');
      assert.equal(await page.getByText('second question').isVisible(), false);
      await page.getByRole('group', { name: 'Branch' }).getByText('right branch').click();
      await untilRow(page, 'second question');
      assert.equal(await page.getByText('first question').isVisible(), false);
    },
    NARROW,
  );
});
