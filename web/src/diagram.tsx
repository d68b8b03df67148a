// Diagrams (Mermaid). A sandboxed frame draws them; the drawing is shown as an image, which cannot
// run code or load anything. The frame is loaded when a message first contains a diagram.
import { useEffect, useState } from 'preact/hooks';
import { CodeBlock } from './markdown-block';
import { theme } from './preferences';

/** Pause before a diagram that is still being written is drawn. */
const DELAY_MS = 400;
const TIMEOUT_MS = 15_000;
const SOURCE_CHARS_MAX = 50_000;
/** Drawings that are kept, so that a row that is drawn again has its height at once. */
const CACHED_MAX = 40;

interface Drawing {
  url: string;
  width: number;
  height: number;
}

interface Reply {
  ready?: boolean;
  id?: number;
  svg?: string;
  error?: string;
}

let frame: Promise<HTMLIFrameElement> | null = null;
let lastId = 0;
const cache = new Map<string, Drawing>();

function loadFrame(): Promise<HTMLIFrameElement> {
  frame ??= new Promise((resolve, reject) => {
    const element = document.createElement('iframe');
    element.className = 'diagram-frame';
    element.title = 'Drawing of diagrams';
    element.tabIndex = -1;
    element.setAttribute('aria-hidden', 'true');
    element.setAttribute('sandbox', 'allow-scripts');
    element.src = '/assets/diagram-frame.html';
    const timer = setTimeout(() => {
      frame = null;
      reject(new Error('the renderer was not loaded'));
    }, TIMEOUT_MS);
    addEventListener('message', function onMessage(event: MessageEvent<Reply>) {
      if (event.source !== element.contentWindow || !event.data.ready) return;
      removeEventListener('message', onMessage);
      clearTimeout(timer);
      resolve(element);
    });
    document.body.append(element);
  });
  return frame;
}

async function draw(source: string, dark: boolean): Promise<Drawing> {
  const key = `${dark}\n${source}`;
  const known = cache.get(key);
  if (known) return known;
  if (source.length > SOURCE_CHARS_MAX) throw new Error('the diagram is too long');
  const element = await loadFrame();
  const id = ++lastId;
  const svg = await new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('drawing took too long')), TIMEOUT_MS);
    addEventListener('message', function onMessage(event: MessageEvent<Reply>) {
      if (event.source !== element.contentWindow || event.data.id !== id) return;
      removeEventListener('message', onMessage);
      clearTimeout(timer);
      if (typeof event.data.svg === 'string') resolve(event.data.svg);
      else reject(new Error(String(event.data.error)));
    });
    element.contentWindow!.postMessage({ id, source, dark }, '*');
  });
  const drawing = toDrawing(svg);
  const oldest = cache.keys().next().value;
  if (cache.size >= CACHED_MAX && oldest !== undefined) {
    URL.revokeObjectURL(cache.get(oldest)!.url);
    cache.delete(oldest);
  }
  cache.set(key, drawing);
  return drawing;
}

function toDrawing(svg: string): Drawing {
  const box = /viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"/.exec(svg);
  const [width, height] = [Math.ceil(Number(box?.[1] ?? 400)), Math.ceil(Number(box?.[2] ?? 300))];
  const sized = svg.replace(
    /<svg ([^>]*)>/,
    (_, attributes: string) =>
      `<svg width="${width}" height="${height}" ` +
      `${attributes.replace(/\b(width|height)="[^"]*"/g, '')}>`,
  );
  const url = URL.createObjectURL(new Blob([sized], { type: 'image/svg+xml' }));
  return { url, width, height };
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');

/** The source is shown until the diagram is drawn, and if it cannot be drawn. */
export function Diagram({ source, name }: { source: string; name: string }) {
  const dark = theme.value === 'dark' || (theme.value === 'auto' && prefersDark.matches);
  const [drawing, setDrawing] = useState(cache.get(`${dark}\n${source}`) ?? null);
  const [error, setError] = useState<string | null>(null);
  const [showsSource, setShowsSource] = useState(false);
  useEffect(() => {
    let cancelled = false;
    const timer = setTimeout(() => {
      draw(source, dark).then(
        (drawn) => {
          if (cancelled) return;
          setDrawing(drawn);
          setError(null);
        },
        (reason: Error) => !cancelled && setError(reason.message.split('\n')[0]!),
      );
    }, DELAY_MS);
    return () => {
      cancelled = true;
      clearTimeout(timer);
    };
  }, [source, dark]);
  if (!drawing || error || showsSource) {
    return (
      <>
        <CodeBlock text={source} lang="mermaid" name={name} />
        {error && <p class="hint">This diagram cannot be drawn: {error}</p>}
        {showsSource && (
          <button type="button" class="link" onClick={() => setShowsSource(false)}>
            Show the diagram
          </button>
        )}
      </>
    );
  }
  return (
    <figure class="diagram">
      <div class="table-scroll" tabIndex={0} role="group" aria-label="Diagram">
        <img
          src={drawing.url}
          width={drawing.width}
          height={drawing.height}
          alt={`Diagram: ${source.slice(0, 300)}`}
        />
      </div>
      <button type="button" class="link" onClick={() => setShowsSource(true)}>
        Show the source
      </button>
    </figure>
  );
}
