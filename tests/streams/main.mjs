// Runs clients of the Durable Streams protocol against a real ctx: node tests/streams/main.mjs [--cases]
//   --cases  prints every case of the conformance suite that was left out, with the reason
// CTX_BIN names the program. The packages are installed once, into the target directory.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { reasonAgainst } from './cases.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? path.join(here, '../../target');
const versions = JSON.parse(readFileSync(path.join(here, 'package.json'))).dependencies;
// A directory per set of versions; the tests are copied beside the packages, where Node finds them.
const name = Object.entries(versions).map(([one, version]) => `${path.basename(one)}-${version}`);
const place = path.resolve(target, 'streams', name.join('+'));
process.env.CTX_BIN = path.resolve(process.env.CTX_BIN ?? path.join(target, 'debug/ctx'));

mkdirSync(place, { recursive: true });
for (const file of readdirSync(here)) cpSync(path.join(here, file), path.join(place, file));
if (!existsSync(path.join(place, 'node_modules/.package-lock.json'))) {
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund'], { cwd: place, stdio: 'inherit' });
}

const run = (...args) =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: place, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (text) => (output += text));
    child.once('exit', (code) => resolve({ code, output }));
  });
const report = path.join(place, 'report.json');
const [follow, suite] = await Promise.all([
  run('--test', '--test-reporter=spec', 'follow.test.mjs'),
  run('node_modules/vitest/vitest.mjs', 'run', '--reporter=json', `--outputFile=${report}`),
]);
process.stdout.write(follow.output.replace(/^ℹ (pass|fail) ([0-9]+)$/gm, '$2 $1ed;'));

const cases = JSON.parse(readFileSync(report)).testResults.flatMap((file) => file.assertionResults);
const left = cases.filter((one) => one.status === 'skipped');
const failed = cases.filter((one) => one.status === 'failed');
for (const one of failed) console.log(`✖ ${one.fullName}\n${one.failureMessages.join('\n')}`);
const reasons = left.map((one) => reasonAgainst(one.ancestorTitles.at(-1), one.title));
if (process.argv.includes('--cases')) left.forEach((one, n) => console.log(`- ${one.fullName}: ${reasons[n]}`));
for (const reason of new Set(reasons)) console.log(`${reasons.filter((one) => one === reason).length} left out: ${reason}`);
const passed = cases.length - left.length - failed.length;
console.log(`conformance: ${cases.length} cases, ${passed} passed; ${failed.length} failed; ${left.length} do not apply`);
process.exitCode = follow.code === 0 && suite.code === 0 && passed > 0 ? 0 : 1;
