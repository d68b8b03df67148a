// What is committed is what the sources give. (`npm run build -- --check` compares every byte.)
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sourceHash } from '../source-hash.mjs';

const web = fileURLToPath(new URL('..', import.meta.url));

test('web/dist was built from these sources', async () => {
  const noted = (await readFile(`${web}dist/SOURCE_HASH`, 'utf8')).trim();
  assert.equal(noted, await sourceHash(web), 'run `npm run build` in web/ and commit web/dist');
});

test('the page names nothing outside its server', async () => {
  const page = await readFile(`${web}dist/index.html`, 'utf8');
  assert.doesNotMatch(page, /https?:|\sstyle=|<style|\son\w+=/);
  const css = await readFile(`${web}dist/app.css`, 'utf8');
  assert.doesNotMatch(css, /url\(|@import/);
});
