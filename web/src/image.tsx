// An image of a message. It is fetched with the token like every other request and shown from a
// `blob:` URL. The most recently used images stay in memory, so that a row that is scrolled back
// into view has its full height at once.
import { useEffect, useState } from 'preact/hooks';
import { errorText, request } from './api';

const MEDIA_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const CACHED_MAX = 50;
/** `blob:` URLs by blob id, oldest first. */
const urls = new Map<string, string>();

async function loadImage(blob: string, mediaType: string): Promise<string> {
  const bytes = await (await request('GET', `/blobs/${blob}`)).arrayBuffer();
  const url = urls.get(blob) ?? URL.createObjectURL(new Blob([bytes], { type: mediaType }));
  urls.set(blob, url);
  for (const [oldest, oldUrl] of urls) {
    if (urls.size <= CACHED_MAX) break;
    urls.delete(oldest);
    URL.revokeObjectURL(oldUrl);
  }
  return url;
}

export function BlobImage({ blob, mediaType }: { blob: string; mediaType: string }) {
  const [url, setUrl] = useState(urls.get(blob));
  const [error, setError] = useState(
    MEDIA_TYPES.includes(mediaType) ? null : `Images of type ${mediaType} are not shown.`,
  );
  useEffect(() => {
    if (!url && !error) {
      loadImage(blob, mediaType).then(setUrl, (reason) => setError(errorText(reason)));
    }
  }, []);
  if (error) return <p class="hint">{error}</p>;
  return <div class="image">{url && <img src={url} alt="Attached image" />}</div>;
}
