// Sessions with usage on many days, of several models, projects and tools. They are imported, so
// that their times lie in the past.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const DAY_MS = 86_400_000;

/** The day so many days ago in UTC, as `YYYY-MM-DD`. */
export const dayBefore = (days) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

/** `turns` are `{ daysAgo, model, input, output, calls: [{ name, params, result, failed }] }`. */
function lines({ id, title, dir, turns }) {
  const records = [{ type: 'session', id, title, working_dir: dir }];
  turns.forEach(({ daysAgo, model, input, output, calls = [], minutes = 1 }, n) => {
    const start = Date.parse(`${dayBefore(daysAgo)}T10:00:00Z`) + n * 1000;
    const at = (minute) => new Date(start + minute * 60_000).toISOString();
    const ids = calls.map((_, call) => `${id}-${n}-${call}`);
    records.push({ role: 'user', content: `request ${n} of ${title}`, timestamp: at(0) });
    if (calls.length > 0) {
      const tool_calls = calls.map(({ name, params = {} }, call) => ({
        id: ids[call],
        type: 'function',
        function: { name, arguments: JSON.stringify(params) },
      }));
      records.push({ role: 'assistant', content: '', tool_calls, timestamp: at(0), model });
      calls.forEach(({ result = 'ok', failed = false }, call) =>
        records.push({
          role: 'tool',
          tool_call_id: ids[call],
          content: result,
          is_error: failed,
          timestamp: at(0),
        }),
      );
    }
    const usage = { input_tokens: input, output_tokens: output };
    records.push({ role: 'assistant', content: 'done', timestamp: at(minutes), model, usage });
  });
  return records.map((record) => JSON.stringify(record)).join('\n');
}

const bash = (failed = false) => ({ name: 'bash', params: { command: 'cargo test' }, failed });
const read = { name: 'read_file', params: { path: 'src/lib.rs' } };

/** Prices of the two models; the third model of the fixture has none. */
export const PRICES =
  '[prices.large-1]\ninput = 10\noutput = 40\n[prices.small-1]\ninput = 1\noutput = 4\n';

/** Imports three sessions, and many small ones with `busy`. The server may run. */
export async function importUsage(server, busy = false) {
  const folder = join(server.dir, 'import');
  const [alpha, beta] = [join(server.dir, 'alpha'), join(server.dir, 'beta')];
  for (const dir of [folder, alpha, beta]) await mkdir(dir, { recursive: true });
  const large = { model: 'large-1', input: 200_000, output: 20_000 };
  const small = { model: 'small-1', input: 50_000, output: 5_000 };
  const local = { model: 'local-7b', input: 9_000, output: 900 };
  const sessions = [
    {
      id: 'one',
      title: 'Add retries to the fetcher',
      dir: alpha,
      turns: [
        { daysAgo: 2, ...large, calls: [bash(), bash(true), read] },
        { daysAgo: 1, ...large, calls: [bash()], minutes: 12 },
      ],
    },
    {
      id: 'two',
      title: 'Look for the slow query',
      dir: alpha,
      turns: [{ daysAgo: 1, ...small, calls: [read], minutes: 95 }],
    },
    {
      id: 'three',
      title: 'Translate the manual',
      dir: beta,
      turns: [
        { daysAgo: 3, ...local },
        { daysAgo: 120, ...local },
      ],
    },
  ];
  if (busy) {
    for (let n = 0; n < 60; n++) {
      const model = [large, small, local][n % 3];
      const daysAgo = (n * 37) % 360;
      const scale = 1 + (n % 5);
      sessions.push({
        id: `busy-${n}`,
        title: `Task number ${n}`,
        dir: join(server.dir, ['alpha', 'beta', 'gamma', 'delta', 'epsilon'][n % 5]),
        turns: Array.from({ length: scale }, (_, turn) => ({
          daysAgo: Math.max(0, daysAgo - turn),
          ...model,
          input: model.input * scale,
          calls: [bash(n % 7 === 0), read, { name: ['grep', 'edit', 'web_fetch'][n % 3] }],
          minutes: scale * 3,
        })),
      });
    }
  }
  for (const session of sessions)
    await writeFile(join(folder, `${session.id}.jsonl`), lines(session));
  server.runCtx('import', '--from', 'jsonl', folder);
}
