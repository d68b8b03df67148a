// One hash over everything that the page is built from: its sources and the lockfile.
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

export async function sourceHash(web) {
  const found = await readdir(join(web, 'src'), { recursive: true, withFileTypes: true });
  const files = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  files.push(join(web, 'package-lock.json'));
  const hash = createHash('sha256');
  for (const file of files.sort()) {
    const bytes = await readFile(file);
    hash.update(`${file.slice(web.length).replaceAll('\\', '/').replace(/^\//, '')}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}
