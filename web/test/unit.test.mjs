// Tests without a browser: live events, the SSE parser, row heights, Markdown, diffs, tree layout.
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { join } from 'node:path';

const web = fileURLToPath(new URL('..', import.meta.url));
// Inside web/, so that the bundled code finds node_modules.
const out = join(web, 'node_modules', '.unit-test.mjs');
let page;
before(async () => {
  const names = [
    'open-turn',
    'row-heights',
    'sse-parser',
    'tree-layout',
    'diff',
    'markdown',
    'row-model',
    'session-groups',
    'turn-usage',
    'word-diff',
  ];
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

const message = (id, content, role = 'assistant') => ({
  id,
  turn: null,
  role,
  source: null,
  content,
  provider_id: null,
  model: null,
  created_at: '2026-01-01T00:00:00Z',
});
const text = (content) => ({ type: 'text', text: content });
const delta = (id, offset, added, name = 'message.delta') => ({
  id: null,
  name,
  data: { message_id: id, offset, text: added },
});
/** Applies events one after another and returns the open messages. */
const apply = (...events) =>
  events.reduce((messages, event) => page.applyEvent(messages, event).messages, []);
const call = (id) => ({
  id: 5,
  name: 'tool_call.started',
  data: { tool_call_id: id, name: 'read' },
});

test('repeated deltas are applied once', () => {
  const messages = apply(
    delta('m', 0, 'one '),
    delta('m', 4, 'two '),
    delta('m', 4, 'two '),
    delta('m', 0, 'one two three '),
  );
  assert.deepEqual(messages[0].content, [text('one two three ')]);
});

test('a gap between deltas causes a fetch', () => {
  const messages = apply(delta('m', 0, 'one '));
  assert.equal(page.applyEvent(messages, delta('m', 9, 'later')).needsFetch, true);
  assert.equal(page.applyEvent([], delta('other', 3, 'x')).needsFetch, true);
  assert.equal(page.applyEvent(messages, delta('m', 4, 'two ')).needsFetch, false);
});

test('delta offsets count characters, not UTF-16 units', () => {
  const events = [delta('m', 0, '🙂é'), delta('m', 2, '!')];
  assert.deepEqual(apply(...events)[0].content, [text('🙂é!')]);
  assert.deepEqual(apply(...events, delta('m', 0, '🙂é!🙂?'))[0].content, [text('🙂é!🙂?')]);
});

test('text after a tool call is a separate part, and fetched messages determine the order', () => {
  const live = apply(delta('m', 0, 'before '), call('c'), delta('m', 7, 'after'));
  assert.deepEqual(
    live[0].content.map((part) => part.type),
    ['text', 'tool_call', 'text'],
  );
  const fetched = [
    message('m', [
      text('before '),
      { type: 'tool_call', id: 'c', name: 'read', params: { path: 'x' }, status: 'completed' },
      text('af'),
    ]),
  ];
  const merged = page.mergeFetched(live, fetched);
  assert.deepEqual(merged[0].content.at(-1), text('after'), 'text that is not stored yet is kept');
  assert.equal(merged[0].content[1].status, 'completed');
});

test('thoughts and text have separate offsets', () => {
  const messages = apply(delta('m', 0, 'hmm ', 'thought.delta'), delta('m', 0, 'yes'));
  assert.deepEqual(messages[0].content, [{ type: 'thought', text: 'hmm ' }, text('yes')]);
});

test('a message that started after the fetch is kept, and an older one is dropped', () => {
  const live = [message('1', [text('a')]), message('3', [text('new')])];
  const merged = page.mergeFetched(live, [message('2', [text('b')], 'user')]);
  assert.deepEqual(
    merged.map((one) => one.id),
    ['2', '3'],
  );
});

test('server-sent events are parsed for every chunk size', () => {
  const stream =
    ': ctx\n\nevent: run.started\nid: 2\ndata: {"run_id":"r"}\n\r\nevent: message.delta\n' +
    'data: {"text":\ndata: "é"}\n\n: ping\n\ndata: broken\n\nid: 3\nevent: x\ndata: {}\n\n';
  for (let size = 1; size <= stream.length; size++) {
    const parser = new page.SseParser();
    const events = [];
    for (let n = 0; n < stream.length; n += size)
      events.push(...parser.push(stream.slice(n, n + size)));
    assert.deepEqual(events, [
      { id: 2, name: 'run.started', data: { run_id: 'r' } },
      { id: null, name: 'message.delta', data: { text: 'é' } },
      { id: 3, name: 'x', data: {} },
    ]);
  }
});

test('the range of a viewport contains every row that overlaps it', () => {
  const heights = new page.RowHeights();
  heights.reset(['a', 'b', 'c', 'd'], [10, 10, 10, 10]);
  assert.equal(heights.total, 40);
  assert.deepEqual(heights.range(10, 19), [1, 2]);
  assert.deepEqual(heights.range(-50, 500), [0, 4]);
  assert.equal(heights.measure('b', 30), true);
  assert.equal(heights.measure('b', 30.2), false, 'a difference below half a pixel is ignored');
  assert.deepEqual(
    [heights.total, heights.start(2), heights.indexAt(39), heights.indexAt(40)],
    [60, 40, 1, 2],
  );
});

test('measured heights are kept when rows are inserted before them', () => {
  const heights = new page.RowHeights();
  heights.reset(['b', 'c'], [10, 10]);
  heights.measure('b', 25);
  heights.reset(['a', 'b', 'c'], [5, 10, 10]);
  assert.deepEqual(
    [0, 1, 2, 3].map((n) => heights.start(n)),
    [0, 5, 30, 40],
  );
  heights.reset([], []);
  assert.deepEqual([heights.total, heights.range(0, 100)], [0, [0, 0]]);
});

test('row starts are the sums of the heights in any order of measurements', () => {
  const heights = new page.RowHeights();
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  let keys = Array.from({ length: 200 }, (_, n) => `k${n}`);
  const measured = new Map();
  heights.reset(
    keys,
    keys.map(() => 20),
  );
  for (let round = 0; round < 500; round++) {
    if (random(10) === 0) {
      keys = [`n${round}`, ...keys];
      heights.reset(
        keys,
        keys.map(() => 20),
      );
    }
    const key = keys[random(keys.length)];
    measured.set(key, 1 + random(300));
    heights.measure(key, measured.get(key));
    const at = random(keys.length);
    const start = keys.slice(0, at).reduce((sum, key) => sum + (measured.get(key) ?? 20), 0);
    assert.equal(heights.start(at), start);
    assert.equal(heights.indexAt(start), at);
  }
});

test('a growing text is split into the same blocks as the whole text', () => {
  const whole =
    '# One\n\nA paragraph\nof two lines.\n\n- a\n- b\n\n  more\n\n' +
    '```rust\nfn main() {\n\n}\n```\n\n> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n' +
    'The end, with [a link][x].\n\n[x]: https://example.org\n';
  const splitter = new page.IncrementalSplitter();
  for (let end = 1; end <= whole.length; end++) {
    const part = whole.slice(0, end);
    assert.deepEqual(
      splitter.split(part).map((block) => block.trim()),
      page.splitBlocks(part).map((block) => block.trim()),
      JSON.stringify(part),
    );
  }
});

test('pathological Markdown is split within five seconds', () => {
  const inputs = [
    '> '.repeat(3000) + 'x',
    '- '.repeat(3000) + 'x',
    '['.repeat(20_000),
    '![['.repeat(5000),
    '*a '.repeat(20_000),
    '**'.repeat(20_000),
    '`'.repeat(20_001),
    '<'.repeat(20_000),
    '|'.repeat(20_000),
    '_a'.repeat(20_000),
    '&'.repeat(20_000),
    '\\'.repeat(20_000),
    '[a]: '.repeat(5000),
    'x'.repeat(200_000),
    '~~'.repeat(10_000),
    '\n'.repeat(50_000),
    '(a@'.repeat(10_000),
    'www.'.repeat(10_000),
    'https://' + '('.repeat(20_000),
  ];
  for (const text of inputs) {
    const start = performance.now();
    assert.ok(Array.isArray(page.splitBlocks(text)));
    const ms = performance.now() - start;
    assert.ok(ms < 5000, `${text.slice(0, 12)}: ${ms.toFixed(0)} ms`);
    if (ms > 300) console.log(`${JSON.stringify(text.slice(0, 12))} took ${ms.toFixed(0)} ms`);
  }
});

test('each branch has its own lane and turns without a fork are one segment', () => {
  const turn = (id, parent, ...heads) => ({ id, parent, depth: 0, heads });
  const tree = [
    turn('1', null),
    turn('2', '1'),
    turn('3', '2'),
    turn('4', '3', 'main'),
    turn('5', '2'),
    turn('6', '5', 'fork'),
  ];
  const segments = page.layoutSegments(tree);
  assert.deepEqual(
    segments.map((one) => [one.first, one.id, one.count, one.lane, one.from?.row ?? null]),
    [
      ['1', '2', 2, 0, null],
      ['5', '6', 2, 1, 0],
      ['3', '4', 2, 0, 0],
    ],
  );
  assert.deepEqual(
    page.layoutSegments(tree, 'fork').map((one) => [one.first, one.lane]),
    [
      ['1', 0],
      ['3', 1],
      ['5', 0],
    ],
    'the path to the current session keeps lane 0',
  );
  assert.deepEqual(page.layoutSegments([]), []);
});

test('turns that no session has are rewound, and their branch is found from any of them', () => {
  const turn = (id, parent, depth, heads = []) => ({ id, parent, depth, heads });
  // a is the head of a session that was rewound from c; d and e are of a fork.
  const tree = [
    turn('a', null, 1, ['main']),
    turn('b', 'a', 2),
    turn('c', 'b', 3),
    turn('d', 'a', 2),
    turn('e', 'd', 3, ['fork']),
  ];
  const rewound = page.layoutSegments(tree, 'main').filter(({ isRewound }) => isRewound);
  assert.deepEqual(
    rewound.map(({ first, id, count }) => [first, id, count]),
    [['b', 'c', 2]],
  );
  const branch = page.sideBranch(tree, 'main', 'b');
  assert.deepEqual(
    branch.turns.map(({ id }) => id),
    ['b', 'c'],
  );
  assert.deepEqual([branch.shared, branch.heads], ['a', []]);
  assert.deepEqual(page.sideBranch(tree, 'main', 'd').heads, ['fork']);
  assert.equal(page.sideBranch(tree, 'main', 'a'), null);
  assert.equal(page.sideBranch(tree, 'fork', 'c').shared, 'a');
});

test('a diff shows changed lines with three lines of context', () => {
  const before = Array.from({ length: 20 }, (_, n) => `line ${n}`).join('\n');
  const lines = page.diffLines(before, before.replace('line 10', 'other'));
  assert.deepEqual(
    lines.filter((line) => '+-'.includes(line.mark)),
    [
      { mark: '-', text: 'line 10' },
      { mark: '+', text: 'other' },
    ],
  );
  assert.equal(lines.length, 2 + 6 + 2);
  assert.equal(page.changeInParams({ path: 'x' }), null);
  assert.ok(page.changeInParams({ old_string: 'a', new_string: 'b' }));
  assert.ok(page.parseUnifiedDiff('--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y'));
  assert.equal(page.parseUnifiedDiff('- a list\n- of things'), null);
});

test('rows keep their keys when the open turn is stored', () => {
  const messages = [
    message('u', [text('do it')], 'user'),
    message('a', [
      text('one\n\ntwo'),
      { type: 'tool_call', id: 'c', name: 'x', params: {}, status: 'running' },
    ]),
    message(
      't',
      [
        {
          type: 'tool_result',
          tool_call_id: 'c',
          content: 'r',
          is_error: false,
          blob: null,
          bytes: null,
        },
      ],
      'tool',
    ),
  ];
  const turn = {
    id: 'turn',
    parent: null,
    type: 'normal',
    status: 'completed',
    depth: 1,
    provider_id: 'p',
    model: null,
    usage: null,
    started_at: '',
    ended_at: '',
    messages,
    compaction: null,
  };
  const live = page.transcriptRows(new Map(), 0, messages, false).map((row) => row.key);
  const stored = page.transcriptRows(new Map([[1, turn]]), 1, [], false).map((row) => row.key);
  assert.deepEqual(stored, [...live, 'footer:turn']);
});

test('a turn with ctx only has notices and no footer, and an error of ctx is shown', () => {
  const error = { type: 'error', code: 'interrupted', message: 'stopped', provider_id: 'p' };
  const turn = (depth, provider_id, ...messages) => [
    depth,
    { id: `t${depth}`, type: 'normal', status: 'completed', depth, provider_id, messages },
  ];
  const sealed = 'The task was sealed as normal: a task';
  const turns = [
    turn(1, 'p', message('u1', [text('hello')], 'user'), message('s1', [error], 'system')),
    turn(2, null, message('u2', [text('/done')], 'user'), message('s2', [text(sealed)], 'system')),
    turn(3, null, message('s3', [text('No task is open in this session.')], 'system')),
  ];
  const rows = page.transcriptRows(new Map(turns), 3, [], false);
  const kinds = rows.map((row) => row.kind).join();
  assert.equal(kinds, 'user,error,footer,user,notice,notice');
  assert.equal(page.newestSealing(rows), 'p:s2:0');
  const reopened = message('s4', [text('The task was reopened: a task')], 'system');
  const after = page.transcriptRows(new Map([...turns, turn(4, null, reopened)]), 4, [], false);
  assert.equal(page.newestSealing(after), null);
});

test('turns that are not loaded are gap rows', () => {
  const turn = (depth) => ({
    id: `t${depth}`,
    parent: null,
    type: 'normal',
    status: 'completed',
    depth,
    messages: [],
  });
  const rows = page.transcriptRows(
    new Map([
      [5, turn(5)],
      [6, turn(6)],
      [9, turn(9)],
    ]),
    10,
    [],
    false,
  );
  assert.deepEqual(
    rows.filter((row) => row.kind === 'gap').map((row) => [row.from, row.to]),
    [
      [1, 4],
      [7, 8],
      [10, 10],
    ],
  );
});

test('the time that a message waited is at least a second', () => {
  const from = '2026-01-01T00:00:00.000Z';
  assert.equal(page.formatDuration(from, '2026-01-01T00:00:00.300Z'), '1 s');
  assert.equal(page.formatDuration(from, '2026-01-01T00:00:12.000Z'), '12 s');
  assert.equal(page.formatDuration(from, '2026-01-01T00:05:00.000Z'), '5 min');
});

test('the footer shows the reported usage and cost only', () => {
  const turn = (usage) => ({
    usage,
    started_at: '2026-01-01T00:00:00Z',
    ended_at: '2026-01-01T00:00:04Z',
  });
  const usage = {
    input_tokens: 1200,
    output_tokens: 340,
    cached_tokens: 0,
    cost: '$0.02',
    scope: 'turn',
  };
  assert.equal(page.turnUsage(turn(usage)), '1,200 in · 340 out · $0.02 · 4 s');
  assert.equal(
    page.turnUsage(turn({ ...usage, output_tokens: null, cost: null })),
    '1,200 in · 4 s',
  );
  assert.equal(page.turnUsage(turn(null)), '4 s');
});

/** A session of the list; `at` is the time of its last activity. */
const listed = (label, at, more = {}) => ({
  id: label,
  label,
  last_activity_at: at,
  origin: 'api',
  parent: null,
  suspensions: [],
  pending_prompt: null,
  task: null,
  ...more,
});

test('sessions are grouped by day, with what needs a reply on top and forks under their origin', () => {
  const now = new Date(2026, 10, 18, 12).getTime();
  const day = (n, hour = 10) => new Date(2026, 10, n, hour).toISOString();
  const fork = (label, at, session) =>
    listed(label, at, { origin: 'fork', parent: { session, turn: null } });
  const sessions = [
    fork('fork of old', day(18, 11), 'old'),
    listed('new', day(18)),
    listed('asks', day(17, 23), { suspensions: [{}] }),
    listed('evening', day(17, 22)),
    fork('fork of nothing', day(17), 'deleted'),
    listed('old', day(15)),
    listed('older', day(3)),
    listed('oldest', day(1).replace('2026-11', '2026-08')),
  ];
  const rows = page.groupSessions(sessions, now);
  const text = rows.map((row) =>
    row.kind === 'heading' ? `# ${row.text}` : `${' '.repeat(row.indent)}${row.session.label}`,
  );
  assert.deepEqual(text, [
    '# Needs a reply',
    'asks',
    '# Today',
    'old',
    ' fork of old',
    'new',
    '# Yesterday',
    'evening',
    'fork of nothing',
    '# Last 30 days',
    'older',
    '# August 2026',
    'oldest',
  ]);
});

test('the words that differ are those outside the longest common subsequence', () => {
  const differing = (a, b) =>
    page.differingWords(a.split(' '), b.split(' ')).map((indexes) => [...indexes]);
  assert.deepEqual(differing('a b c d', 'a x c d'), [[1], [1]]);
  assert.deepEqual(differing('a b c', 'a b c'), [[], []]);
  assert.deepEqual(differing('a b', 'a new b'), [[], [1]]);
  assert.deepEqual(differing('x y', 'p q r'), [
    [0, 1],
    [0, 1, 2],
  ]);
  const long = Array.from({ length: 4000 }, (_, n) => `w${n}`);
  assert.equal(page.differingWords(long, long.toReversed()), null);
});
