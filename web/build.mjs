// Builds the page: `node build.mjs` writes web/dist. `node build.mjs --check` fails if web/dist is
// not up to date. The build is reproducible: the same sources give the same bytes.
import { build } from 'esbuild';
import { cp, mkdtemp, readFile, readdir, rm, writeFile, mkdir } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sourceHash } from './source-hash.mjs';

const web = fileURLToPath(new URL('.', import.meta.url));
const GZIPPED_MAX_BYTES = 90_000;

async function buildInto(outdir) {
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  await build({
    entryPoints: { app: join(web, 'src/main.tsx') },
    outdir,
    bundle: true,
    minify: true,
    // Only libraries write to the console: hints for their developers.
    drop: ['console'],
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    absWorkingDir: web,
    logLevel: 'warning',
  });
  for (const file of ['index.html', 'icon.svg'])
    await cp(join(web, 'src', file), join(outdir, file));
  await writeFile(join(outdir, 'SOURCE_HASH'), `${await sourceHash(web)}\n`);
}

/** Prints the gzipped size of each file and fails above the limit. */
async function checkSize(dir) {
  let total = 0;
  for (const file of (await readdir(dir)).sort()) {
    if (file === 'SOURCE_HASH') continue;
    const bytes = gzipSync(await readFile(join(dir, file)), { level: 9 }).length;
    total += bytes;
    console.log(`${String(bytes).padStart(7)}  ${file}`);
  }
  console.log(`${String(total).padStart(7)}  total gzipped (limit ${GZIPPED_MAX_BYTES})`);
  if (total > GZIPPED_MAX_BYTES)
    throw new Error(`bundle too large: ${total} bytes gzipped, the limit is ${GZIPPED_MAX_BYTES}`);
}

async function isSame(a, b) {
  const [left, right] = [(await readdir(a)).sort(), (await readdir(b)).sort()];
  if (left.join() !== right.join()) return false;
  for (const file of left) {
    if (!(await readFile(join(a, file))).equals(await readFile(join(b, file)))) return false;
  }
  return true;
}

const dist = join(web, 'dist');
if (process.argv.includes('--check')) {
  const temporary = await mkdtemp(join(tmpdir(), 'ctx-web-'));
  try {
    await buildInto(temporary);
    if (!(await isSame(temporary, dist)))
      throw new Error('web/dist is out of date: run `./dev page` and commit web/dist');
    await checkSize(dist);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
} else {
  await buildInto(dist);
  await checkSize(dist);
}
