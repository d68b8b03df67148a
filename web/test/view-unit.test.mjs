// Code of the usage, work and setup pages that needs no browser.
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { join } from 'node:path';

const web = fileURLToPath(new URL('..', import.meta.url));
// Inside web/, so that the bundled code finds node_modules.
const out = join(web, 'node_modules', '.view-unit-test.mjs');
let page;
before(async () => {
  const names = ['treemap-layout', 'file-diff', 'turn-changes', 'usage-data', 'setup-data'];
  await build({
    stdin: {
      contents: names.map((name) => `export * from './src/${name}';`).join('\n'),
      resolveDir: web,
    },
    bundle: true,
    format: 'esm',
    platform: 'node',
    outfile: out,
    logLevel: 'error',
  });
  page = await import(pathToFileURL(out).href);
});
after(() => rm(out, { force: true }));

test('the rectangles of a treemap have the areas of their values and do not overlap', () => {
  const values = [60, 25, 8, 4, 2, 1];
  const rects = page.treemap(values, { x: 0, y: 0, width: 700, height: 260 });
  assert.equal(rects.length, values.length);
  rects.forEach((rect, n) => {
    assert.ok(Math.abs(rect.width * rect.height - (values[n] / 100) * 700 * 260) < 1);
    assert.ok(rect.x >= 0 && rect.x + rect.width <= 700.01);
    assert.ok(rect.y >= 0 && rect.y + rect.height <= 260.01);
    for (const other of rects.slice(n + 1)) {
      const apart =
        rect.x + rect.width <= other.x + 0.01 ||
        other.x + other.width <= rect.x + 0.01 ||
        rect.y + rect.height <= other.y + 0.01 ||
        other.y + other.height <= rect.y + 0.01;
      assert.ok(apart, JSON.stringify([rect, other]));
    }
  });
  assert.deepEqual(page.treemap([0], { x: 0, y: 0, width: 9, height: 9 }), []);
});

test('the diff of a long file has the changed lines and their place only', () => {
  const before = Array.from({ length: 5000 }, (_, n) => `line ${n}`).join('\n') + '\n';
  const lines = page.fileDiff(before, before.replace('line 2500\n', 'other\nmore\n'));
  assert.deepEqual(page.countChanges(lines), { added: 2, removed: 1 });
  assert.deepEqual(lines[0], { mark: '@', text: '⋯ line 2498' });
  assert.ok(lines.length < 12);
  assert.deepEqual(page.fileDiff('same\n', 'same\n'), []);
  assert.deepEqual(page.countChanges(page.fileDiff('', 'a\nb\n')), { added: 2, removed: 0 });
  assert.deepEqual(page.countChanges(page.fileDiff('a\nb\n', '')), { added: 0, removed: 2 });
});

const turnOf = (...content) => ({ messages: [{ content }] });
const called = (id, name, params, status = 'completed') => ({
  type: 'tool_call',
  id,
  name,
  params,
  status,
});
const result = (tool_call_id, content, is_error = false) => ({
  type: 'tool_result',
  tool_call_id,
  content,
  is_error,
});

test('the files of a turn come from the results and the parameters of its tools', () => {
  const diff = '--- src/a.rs\n+++ src/a.rs\n@@ -1 +1 @@\n-x\n+y\n';
  const patch =
    '*** Begin Patch\n*** Add File: new.txt\n+one\n*** Update File: b.rs\n@@\n-p\n+q\n*** End Patch';
  const changes = page.turnChanges(
    turnOf(
      called('1', 'edit', { path: 'src/a.rs' }),
      result('1', diff),
      called('2', 'apply_patch', { input: patch }),
      result('2', 'ok'),
      called('3', 'Write', { file_path: 'c.md', content: 'one\ntwo\n' }),
      called('4', 'edit', { path: 'd', old_string: 'a', new_string: 'b' }, 'failed'),
      called('5', 'edit', { path: 'e', old_string: 'a', new_string: 'b' }),
      result('5', 'refused', true),
      called('6', 'read_file', { path: 'f', content: 'x' }),
      called('7', 'edit', { path: 'src/a.rs', old_string: 'y', new_string: 'z' }),
    ),
  );
  const shown = changes.map(({ path, lines }) => [path, page.changesText(lines)]);
  assert.deepEqual(shown, [
    ['src/a.rs', '+2 −2'],
    ['new.txt', '+1 −0'],
    ['b.rs', '+1 −1'],
    ['c.md', '+2 −0'],
  ]);
});

test('numbers have three digits, and cells of CSV are never formulas', () => {
  assert.deepEqual([0, 999, 1000, 12_345, 999_600, 4_560_000].map(page.formatCount), [
    '0',
    '999',
    '1.00k',
    '12.3k',
    '1.00M',
    '4.56M',
  ]);
  assert.equal(page.formatCost(0.0123), '$0.0123');
  assert.equal(page.formatTime(5_700_000), '1 h 35 min');
  const csv = page.toCsv(
    ['a', 'b'],
    [
      ['=1+1', 2],
      ['x,"y"', null],
    ],
  );
  assert.equal(csv, 'a,b\r\n\'=1+1,2\r\n"x,""y""",\r\n');
  assert.deepEqual(page.daysBetween('2026-02-27', '2026-03-01').length, 3);
});

test('the state of the usage page survives its way through the address', () => {
  const state = { since: '90d', model: 'a/b & c', project: '', measure: 'tokens' };
  assert.deepEqual(page.parseState(page.formatState(state)), state);
  assert.deepEqual(page.parseState(''), { since: '30d' });
});

test('a command line is split into words and joined again', () => {
  const words = ['my agent', '--acp', 'a"b', 'c\\d', ''];
  assert.deepEqual(page.splitCommand(page.joinCommand(words)), words);
  assert.deepEqual(page.splitCommand('  a \'b c\'  "d e"f \\ g '), ['a', 'b c', 'd ef', ' g']);
  assert.deepEqual(page.splitCommand('   '), []);
});
