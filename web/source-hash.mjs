// A hash of everything that the page is built from: web/src and the lock file of the dependencies.
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** `web` is the path of the web directory. File names and sizes are part of the hash. */
export async function sourceHash(web) {
  const entries = await readdir(join(web, 'src'), { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  files.push(join(web, 'package-lock.json'));
  const hash = createHash('sha256');
  for (const file of files.sort()) {
    const bytes = await readFile(file);
    const name = file.slice(web.length).replaceAll('\\', '/').replace(/^\//, '');
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}
