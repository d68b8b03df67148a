// Not a test: runs axe in a page, in light and dark, wide and narrow.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { newContext, TIMEOUT_MS } from './harness.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SIZES = [
  { width: 1440, height: 900 },
  { width: 1024, height: 768 },
  { width: 390, height: 844 },
];

/** Opens a view in each size and color scheme and fails on a violation. `open` brings it into the
 * state to check. */
export async function checkView(browser, name, url, open) {
  for (const viewport of SIZES) {
    for (const colorScheme of ['light', 'dark']) {
      // axe is injected as a script, which the content security policy of the page would block.
      const context = await newContext(browser, { viewport, colorScheme, bypassCSP: true });
      const page = await context.newPage();
      page.setDefaultTimeout(TIMEOUT_MS);
      try {
        await page.goto(url);
        await open(page);
        const here = `${name}, ${viewport.width} px, ${colorScheme}`;
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document));
        const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
        assert.deepEqual(found, [], here);
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(overflow, 0, `${here}: the page scrolls to the side`);
      } finally {
        await context.close();
      }
    }
  }
}
