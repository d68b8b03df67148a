// What needs no browser: events folded into messages, the arithmetic of the long list, the drawing of branches.
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { join } from 'node:path';

const web = fileURLToPath(new URL('..', import.meta.url));
// Inside web/, so that what is bundled finds node_modules.
const out = join(web, 'node_modules', '.units.mjs');
let page;
before(async () => {
  const names = ['fold', 'heights', 'sse', 'branches', 'diff', 'markdown', 'rows'];
  await build({ stdin: { contents: names.map((name) => `export * from './src/${name}';`).join('\n'), resolveDir: web }, bundle: true, format: 'esm', platform: 'node', outfile: out, logLevel: 'error' });
  page = await import(pathToFileURL(out).href);
});
after(() => rm(out, { force: true }));

const message = (id, content, role = 'assistant') => ({ id, turn: null, role, source: null, content, provider_id: null, model: null, created_at: '2026-01-01T00:00:00Z' });
const text = (words) => ({ type: 'text', text: words });
const delta = (id, offset, words, name = 'message.delta') => ({ id: null, name, data: { message_id: id, offset, text: words } });
const call = (id) => ({ id: 5, name: 'tool_call.started', data: { tool_call_id: id, name: 'read' } });

test('words are folded once each, whatever comes twice', () => {
  let open = [];
  for (const event of [delta('m', 0, 'one '), delta('m', 4, 'two '), delta('m', 4, 'two '), delta('m', 0, 'one two three ')]) ({ open } = page.fold(open, event));
  assert.deepEqual(open[0].content, [text('one two three ')]);
});

test('a gap in the words is fetched, not guessed', () => {
  const { open } = page.fold([], delta('m', 0, 'one '));
  assert.equal(page.fold(open, delta('m', 9, 'later')).next, 'fetch');
  assert.equal(page.fold([], delta('other', 3, 'x')).next, 'fetch');
});

test('offsets count characters, not UTF-16 units', () => {
  let { open } = page.fold([], delta('m', 0, '🙂é'));
  ({ open } = page.fold(open, delta('m', 2, '!')));
  assert.deepEqual(open[0].content, [text('🙂é!')]);
  ({ open } = page.fold(open, delta('m', 0, '🙂é!🙂?')));
  assert.deepEqual(open[0].content, [text('🙂é!🙂?')]);
});

test('words after a tool call are a part of their own, and what was fetched decides the order', () => {
  let { open } = page.fold([], delta('m', 0, 'before '));
  ({ open } = page.fold(open, call('c')));
  ({ open } = page.fold(open, delta('m', 7, 'after')));
  assert.deepEqual(open[0].content.map((part) => part.type), ['text', 'tool_call', 'text']);
  const fetched = [message('m', [text('before '), { type: 'tool_call', id: 'c', name: 'read', params: { path: 'x' }, status: 'completed' }, text('af')])];
  const merged = page.merge(open, fetched);
  assert.deepEqual(merged[0].content.at(-1), text('after'), 'words that are not stored yet stay');
  assert.equal(merged[0].content[1].status, 'completed');
});

test('thoughts and words have offsets of their own', () => {
  let { open } = page.fold([], delta('m', 0, 'hmm ', 'thought.delta'));
  ({ open } = page.fold(open, delta('m', 0, 'yes')));
  assert.deepEqual(open[0].content, [{ type: 'thought', text: 'hmm ' }, text('yes')]);
});

test('a message that began after the fetch is kept, one that is committed is not brought back', () => {
  const open = [message('1', [text('a')]), message('3', [text('new')])];
  assert.deepEqual(page.merge(open, [message('2', [text('b')], 'user')]).map((one) => one.id), ['2', '3']);
});

test('events are read whatever pieces they come in', () => {
  const stream = ': ctx\n\nevent: run.started\nid: 2\ndata: {"run_id":"r"}\n\r\nevent: message.delta\ndata: {"text":\ndata: "é"}\n\n: ping\n\ndata: broken\n\nid: 3\nevent: x\ndata: {}\n\n';
  for (let size = 1; size <= stream.length; size++) {
    const reader = new page.Reader();
    const events = [];
    for (let n = 0; n < stream.length; n += size) events.push(...reader.push(stream.slice(n, n + size)));
    assert.deepEqual(events, [
      { id: 2, name: 'run.started', data: { run_id: 'r' } },
      { id: null, name: 'message.delta', data: { text: 'é' } },
      { id: 3, name: 'x', data: {} },
    ]);
  }
});

test('the rows of a place are those that cover it', () => {
  const heights = new page.Heights();
  heights.reset(['a', 'b', 'c', 'd'], [10, 10, 10, 10]);
  assert.equal(heights.total, 40);
  assert.deepEqual(heights.range(10, 19), [1, 2]);
  assert.deepEqual(heights.range(-50, 500), [0, 4]);
  assert.equal(heights.measure('b', 30), true);
  assert.equal(heights.measure('b', 30.2), false, 'less than a pixel is no news');
  assert.deepEqual([heights.total, heights.start(2), heights.find(39), heights.find(40)], [60, 40, 1, 2]);
});

test('what was measured is known again when rows come before it', () => {
  const heights = new page.Heights();
  heights.reset(['b', 'c'], [10, 10]);
  heights.measure('b', 25);
  heights.reset(['a', 'b', 'c'], [5, 10, 10]);
  assert.deepEqual([0, 1, 2, 3].map((n) => heights.start(n)), [0, 5, 30, 40]);
  heights.reset([], []);
  assert.deepEqual([heights.total, heights.range(0, 100)], [0, [0, 0]]);
});

test('starts are sums of heights, whatever is measured in whatever order', () => {
  const heights = new page.Heights();
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  let keys = Array.from({ length: 200 }, (_, n) => `k${n}`);
  const known = new Map();
  heights.reset(keys, keys.map(() => 20));
  for (let round = 0; round < 500; round++) {
    if (random(10) === 0) {
      keys = [`n${round}`, ...keys];
      heights.reset(keys, keys.map(() => 20));
    }
    const key = keys[random(keys.length)];
    known.set(key, 1 + random(300));
    heights.measure(key, known.get(key));
    const at = random(keys.length);
    const start = keys.slice(0, at).reduce((sum, key) => sum + (known.get(key) ?? 20), 0);
    assert.equal(heights.start(at), start);
    assert.equal(heights.find(start), at);
  }
});

test('a text that grows is split as it is split whole', () => {
  const whole = '# One\n\nA paragraph\nof two lines.\n\n- a\n- b\n\n  more\n\n```rust\nfn main() {\n\n}\n```\n\n> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end, with [a link][x].\n\n[x]: https://example.org\n';
  const splitter = new page.Splitter();
  for (let end = 1; end <= whole.length; end++) {
    const part = whole.slice(0, end);
    assert.deepEqual(splitter.split(part).map((block) => block.trim()), page.blocks(part).map((block) => block.trim()), JSON.stringify(part));
  }
});

test('text that parsers choke on is split all the same, and in time', () => {
  const nasty = ['> '.repeat(3000) + 'x', '- '.repeat(3000) + 'x', '['.repeat(20_000), '![['.repeat(5000), '*a '.repeat(20_000), '**'.repeat(20_000), '`'.repeat(20_001), '<'.repeat(20_000), '|'.repeat(20_000), '_a'.repeat(20_000), '&'.repeat(20_000), '\\'.repeat(20_000), '[a]: '.repeat(5000), 'x'.repeat(200_000), '~~'.repeat(10_000), '\n'.repeat(50_000), '(a@'.repeat(10_000), 'www.'.repeat(10_000), 'https://' + '('.repeat(20_000)];
  for (const text of nasty) {
    const began = performance.now();
    assert.ok(Array.isArray(page.blocks(text)));
    const took = performance.now() - began;
    assert.ok(took < 5000, `${text.slice(0, 12)}: ${took.toFixed(0)} ms`);
    if (took > 300) console.log(`${JSON.stringify(text.slice(0, 12))} took ${took.toFixed(0)} ms`);
  }
});

test('branches have lanes of their own and runs of turns are one mark', () => {
  const turn = (id, parent, ...heads) => ({ id, parent, depth: 0, heads });
  const tree = [turn('1', null), turn('2', '1'), turn('3', '2'), turn('4', '3', 'main'), turn('5', '2'), turn('6', '5', 'fork')];
  const rows = page.stretches(tree);
  assert.deepEqual(rows.map((row) => [row.first, row.id, row.count, row.lane, row.from?.row ?? null]), [['1', '2', 2, 0, null], ['5', '6', 2, 1, 0], ['3', '4', 2, 0, 0]]);
  assert.deepEqual(page.stretches(tree, 'fork').map((row) => [row.first, row.lane]), [['1', 0], ['3', 1], ['5', 0]], 'the line to here keeps its lane');
  assert.deepEqual(page.stretches([]), []);
});

test('changes are shown with a little of what stayed', () => {
  const before = Array.from({ length: 20 }, (_, n) => `line ${n}`).join('\n');
  const lines = page.compare(before, before.replace('line 10', 'other'));
  assert.deepEqual(lines.filter((line) => '+-'.includes(line.mark)), [{ mark: '-', text: 'line 10' }, { mark: '+', text: 'other' }]);
  assert.equal(lines.length, 2 + 6 + 2);
  assert.equal(page.changeIn({ path: 'x' }), null);
  assert.ok(page.changeIn({ old_string: 'a', new_string: 'b' }));
  assert.ok(page.unified('--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y'));
  assert.equal(page.unified('- a list\n- of things'), null);
});

test('rows keep their keys when the open turn is committed', () => {
  const messages = [message('u', [text('do it')], 'user'), message('a', [text('one\n\ntwo'), { type: 'tool_call', id: 'c', name: 'x', params: {}, status: 'running' }]), message('t', [{ type: 'tool_result', tool_call_id: 'c', content: 'r', is_error: false, blob: null, bytes: null }], 'tool')];
  const turn = { id: 'turn', parent: null, type: 'normal', status: 'completed', depth: 1, provider_id: 'p', model: null, usage: null, started_at: '', ended_at: '', messages, compaction: null };
  const live = page.allRows(new Map(), 0, messages, false).map((row) => row.key);
  const stored = page.allRows(new Map([[1, turn]]), 1, [], false).map((row) => row.key);
  assert.deepEqual(stored, [...live, 'foot:turn']);
});

test('what was not fetched is a gap of its size', () => {
  const turn = (depth) => ({ id: `t${depth}`, parent: null, type: 'normal', status: 'completed', depth, messages: [] });
  const rows = page.allRows(new Map([[5, turn(5)], [6, turn(6)], [9, turn(9)]]), 10, [], false);
  assert.deepEqual(rows.filter((row) => row.kind === 'gap').map((row) => [row.from, row.to]), [[1, 4], [7, 8], [10, 10]]);
});
