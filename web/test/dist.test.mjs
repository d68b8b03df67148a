// web/dist was built from web/src. `node build.mjs --check` compares every byte; this test needs no
// dependencies.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sourceHash } from '../source-hash.mjs';

const web = fileURLToPath(new URL('..', import.meta.url));

test('web/dist was built from the current sources', async () => {
  const recorded = (await readFile(`${web}dist/SOURCE_HASH`, 'utf8')).trim();
  assert.equal(recorded, await sourceHash(web), 'run `./dev page` and commit web/dist');
});

test('the page loads nothing from other servers and has no inline code', async () => {
  const page = await readFile(`${web}dist/index.html`, 'utf8');
  assert.doesNotMatch(page, /https?:|\sstyle=|<style|\son\w+=/);
  const css = await readFile(`${web}dist/app.css`, 'utf8');
  assert.doesNotMatch(css, /url\(|@import/);
});

test('index.html preloads every file that app.js needs to start', async () => {
  const page = await readFile(`${web}dist/index.html`, 'utf8');
  const preloaded = [...page.matchAll(/modulepreload" href="\/assets\/([^"]+)"/g)];
  const needed = new Set();
  const add = async (file) => {
    const code = await readFile(`${web}dist/${file}`, 'utf8');
    for (const [, name] of code.matchAll(/(?:from|import)"\.\/([^"]+)"/g)) {
      if (needed.has(name)) continue;
      needed.add(name);
      await add(name);
    }
  };
  await add('app.js');
  assert.ok(needed.size > 0);
  assert.deepEqual(preloaded.map(([, name]) => name).sort(), [...needed].sort());
});
