// A picture is fetched like everything else, with the token, and shown from memory. Those last seen are kept, so that
// a row that is scrolled back to is as high at once as it was.
import { useEffect, useState } from 'preact/hooks';
import { request, told } from './api';

const TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/** How many pictures are kept. */
const KEPT_MAX = 50;
const kept = new Map<string, string>();

async function fetched(blob: string, type: string): Promise<string> {
  const bytes = await (await request('GET', `/blobs/${blob}`)).arrayBuffer();
  const url = kept.get(blob) ?? URL.createObjectURL(new Blob([bytes], { type }));
  kept.set(blob, url);
  for (const [oldest, gone] of kept) {
    if (kept.size <= KEPT_MAX) break;
    kept.delete(oldest);
    URL.revokeObjectURL(gone);
  }
  return url;
}

export function Picture({ blob, type }: { blob: string; type: string }) {
  const [url, setUrl] = useState(kept.get(blob));
  const [failed, setFailed] = useState(TYPES.includes(type) ? null : `a picture of the type ${type}, which is not shown`);
  useEffect(() => {
    if (!url && !failed) fetched(blob, type).then(setUrl, (error) => setFailed(told(error)));
  }, []);
  if (failed) return <p class="hint">{failed}</p>;
  return <div class="picture">{url && <img src={url} alt="attached picture" />}</div>;
}
