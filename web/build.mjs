// Builds the page: `node build.mjs` writes dist/, `node build.mjs --check` says whether dist/ is what src/ gives.
// The same sources give the same bytes, so that what is committed can be compared.
import { build } from 'esbuild';
import { cp, mkdtemp, readFile, readdir, rm, writeFile, mkdir } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sourceHash } from './source-hash.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const GZIPPED_MAX_BYTES = 90_000;

async function write(into) {
  await rm(into, { recursive: true, force: true });
  await mkdir(into, { recursive: true });
  await build({
    entryPoints: { app: join(here, 'src/main.tsx') },
    outdir: into,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    absWorkingDir: here,
    logLevel: 'warning',
  });
  for (const file of ['index.html', 'icon.svg']) await cp(join(here, 'src', file), join(into, file));
  await writeFile(join(into, 'SOURCE_HASH'), `${await sourceHash(here)}\n`);
}

async function sizes(dir) {
  let total = 0;
  for (const file of (await readdir(dir)).sort()) {
    if (file === 'SOURCE_HASH') continue;
    const bytes = gzipSync(await readFile(join(dir, file)), { level: 9 }).length;
    total += bytes;
    console.log(`${String(bytes).padStart(7)}  ${file}`);
  }
  console.log(`${String(total).padStart(7)}  gzipped, of at most ${GZIPPED_MAX_BYTES}`);
  if (total > GZIPPED_MAX_BYTES) throw new Error('the bundle is too large');
}

async function same(a, b) {
  const [left, right] = [(await readdir(a)).sort(), (await readdir(b)).sort()];
  if (left.join() !== right.join()) return false;
  for (const file of left) {
    if (!(await readFile(join(a, file))).equals(await readFile(join(b, file)))) return false;
  }
  return true;
}

const dist = join(here, 'dist');
if (process.argv.includes('--check')) {
  const fresh = await mkdtemp(join(tmpdir(), 'ctx-web-'));
  try {
    await write(fresh);
    if (!(await same(fresh, dist))) throw new Error('web/dist is not what web/src gives: run `npm run build` in web/ and commit it');
    await sizes(dist);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
} else {
  await write(dist);
  await sizes(dist);
}
