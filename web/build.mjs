// Builds the page: `node build.mjs` writes web/dist. `node build.mjs --check` fails if web/dist is
// not up to date. The build is reproducible: the same sources give the same bytes.
import { build } from 'esbuild';
import { cp, mkdtemp, readFile, readdir, rm, writeFile, mkdir } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sourceHash } from './source-hash.mjs';

const web = fileURLToPath(new URL('.', import.meta.url));
/** Limits in bytes, gzipped: what every visit loads, what on-demand.tsx and lazy-view.tsx load, and
 * the renderers of formulas and diagrams. */
const START_MAX_BYTES = 110_000;
const ON_DEMAND_MAX_BYTES = 90_000;
const RENDERERS_MAX_BYTES = 900_000;

async function buildInto(outdir) {
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  const { metafile } = await build({
    entryPoints: { app: join(web, 'src/main.tsx') },
    outdir,
    bundle: true,
    // Code that only a dynamic import needs becomes a file of its own. The hash in its name
    // prevents that a page that is open during an update loads a file of the new version.
    splitting: true,
    chunkNames: '[name]-[hash]',
    metafile: true,
    minify: true,
    // Only libraries write to the console: hints for their developers.
    drop: ['console'],
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    loader: { '.svg': 'dataurl' },
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    absWorkingDir: web,
    logLevel: 'warning',
  });
  await buildDiagramFrame(outdir);
  await cp(join(web, 'src/icon.svg'), join(outdir, 'icon.svg'));
  await writeIndex(outdir, metafile);
  await writeFile(join(outdir, 'SOURCE_HASH'), `${await sourceHash(web)}\n`);
  return onDemandFiles(metafile);
}

/** Packages that few diagrams need: layouts of mind maps, and formulas in labels. */
const LEFT_OUT = /^(cytoscape|cytoscape-.*|katex|elkjs.*)$/;

/** The script of the sandboxed frame. It is one classic script, because a frame without an origin
 * cannot load modules. */
async function buildDiagramFrame(outdir) {
  const leaveOut = {
    name: 'leave-out',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: LEFT_OUT }, ({ path }) => ({ path, namespace: 'left-out' }));
      const contents = 'export default () => { throw new Error("this diagram is not supported"); }';
      onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents }));
    },
  };
  await build({
    entryPoints: { 'diagram-frame': join(web, 'src/diagram-frame.ts') },
    outdir,
    bundle: true,
    minify: true,
    drop: ['console'],
    format: 'iife',
    target: 'es2022',
    legalComments: 'none',
    charset: 'utf8',
    absWorkingDir: web,
    plugins: [leaveOut],
    logLevel: 'error',
  });
  await cp(join(web, 'src/diagram-frame.html'), join(outdir, 'diagram-frame.html'));
}

/** Writes index.html. The browser loads what app.js imports, directly or not, at the same time as
 * app.js. */
async function writeIndex(outdir, metafile) {
  const preloads = importedBy('app.js', metafile)
    .map((file) => `<link rel="modulepreload" href="/assets/${file}">\n`)
    .join('');
  const page = await readFile(join(web, 'src/index.html'), 'utf8');
  await writeFile(join(outdir, 'index.html'), page.replace('<script', `${preloads}<script`));
}

/** The files that an output file needs, without those of dynamic imports. */
function importedBy(file, { outputs }) {
  const byName = new Map(Object.entries(outputs).map(([path, output]) => [basename(path), output]));
  const found = new Set();
  const add = (name) => {
    for (const { kind, path } of byName.get(name).imports) {
      if (kind !== 'import-statement' || found.has(basename(path))) continue;
      found.add(basename(path));
      add(basename(path));
    }
  };
  add(file);
  return [...found];
}

/** The files that are not loaded at the start. */
function onDemandFiles(metafile) {
  const atStart = ['app.js', 'app.css', ...importedBy('app.js', metafile)];
  const files = Object.keys(metafile.outputs).map((path) => basename(path));
  return [
    ...files.filter((file) => !atStart.includes(file)),
    'diagram-frame.html',
    'diagram-frame.js',
  ];
}

/** Prints the gzipped size of each file and fails above a limit. */
async function checkSize(dir, onDemand) {
  const files = (await readdir(dir)).filter((file) => file !== 'SOURCE_HASH').sort();
  const isRenderer = (file) => /^(math|diagram-frame)[-.]/.test(file);
  const isOnDemand = (file) => onDemand.includes(file);
  const groups = [
    ['at the start', files.filter((file) => !isOnDemand(file)), START_MAX_BYTES],
    [
      'on demand',
      files.filter((file) => isOnDemand(file) && !isRenderer(file)),
      ON_DEMAND_MAX_BYTES,
    ],
    ['for formulas and diagrams', files.filter(isRenderer), RENDERERS_MAX_BYTES],
  ];
  for (const [name, group, limit] of groups) {
    let total = 0;
    for (const file of group) {
      const bytes = gzipSync(await readFile(join(dir, file)), { level: 9 }).length;
      total += bytes;
      console.log(`${String(bytes).padStart(7)}  ${file}`);
    }
    console.log(`${String(total).padStart(7)}  gzipped, loaded ${name} (limit ${limit})`);
    if (total > limit)
      throw new Error(`page too large: ${total} bytes loaded ${name}, the limit is ${limit}`);
  }
}

async function isSame(a, b) {
  const [left, right] = [(await readdir(a)).sort(), (await readdir(b)).sort()];
  if (left.join() !== right.join()) return false;
  for (const file of left) {
    if (!(await readFile(join(a, file))).equals(await readFile(join(b, file)))) return false;
  }
  return true;
}

const dist = process.env.CTX_PAGE_DIR ?? join(web, 'dist');
if (process.argv.includes('--check')) {
  const temporary = await mkdtemp(join(tmpdir(), 'ctx-web-'));
  try {
    const onDemand = await buildInto(temporary);
    if (!(await isSame(temporary, dist)))
      throw new Error('web/dist is out of date: run `./dev page` and commit web/dist');
    await checkSize(dist, onDemand);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
} else {
  await checkSize(dist, await buildInto(dist));
}
