// Stored content on the work pages: diffs of files, output of commands.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import type { DiffLine } from './diff';
import { changesText, fileDiff } from './file-diff';
import { Diff, formatSize } from './tool-call';
import { textOf, type Content } from './work-data';

/** Output beyond this is left out until the user asks for it. */
const OUTPUT_CHARS_MAX = 4000;

export function StoredText({ content, title }: { content: Content; title: string }) {
  const isText = typeof content === 'string';
  const [text, setText] = useState<string | null>(isText ? content : null);
  const [showsAll, setShowsAll] = useState(false);
  const [, error, run] = useAction();
  const [isBinary, setBinary] = useState(false);
  if (text === null && !isText) {
    if ('omitted' in content)
      return <p class="hint">{formatSize(content.bytes)}, too large to store</p>;
    if (isBinary) return <p class="hint">{formatSize(content.bytes)}, not text</p>;
    const load = async () => {
      const found = await textOf(content);
      if (found === null) setBinary(true);
      else setText(found);
    };
    return (
      <>
        <button type="button" class="link" onClick={() => run(load)}>
          Show {title.toLowerCase()}, {formatSize(content.bytes)}
        </button>
        <ErrorMessage text={error} />
      </>
    );
  }
  const all = text ?? '';
  const isCut = !showsAll && all.length > OUTPUT_CHARS_MAX;
  return (
    <div class="output">
      <span class="output-title">{title}</span>
      <pre tabIndex={0} aria-label={title}>
        {isCut ? all.slice(0, OUTPUT_CHARS_MAX) : all || '(empty)'}
      </pre>
      {isCut && (
        <button type="button" class="link" onClick={() => setShowsAll(true)}>
          Show all {all.length.toLocaleString()} characters
        </button>
      )}
    </div>
  );
}

interface VersionsProps {
  before: Content | null;
  after: Content | null;
}

/** The change between two versions. Blobs are fetched when this is shown. */
export function VersionDiff({ before, after }: VersionsProps) {
  const [lines, setLines] = useState<DiffLine[] | null>(null);
  const [isUnknown, setUnknown] = useState(false);
  const [, error, run] = useAction();
  useEffect(() => {
    run(async () => {
      const [old, now] = await Promise.all([textOf(before), textOf(after)]);
      if (old === null || now === null) setUnknown(true);
      else setLines(fileDiff(old, now));
    });
  }, []);
  return (
    <>
      <ErrorMessage text={error} />
      {isUnknown && <p class="hint">A version is not stored or is not text.</p>}
      {before === null && after !== null && (
        <p class="hint">No earlier version was recorded; all lines are shown as added.</p>
      )}
      {lines && lines.length === 0 && <p class="hint">Unchanged.</p>}
      {lines && lines.length > 0 && (
        <>
          <p class="hint">{changesText(lines)} lines</p>
          <Diff lines={lines} />
        </>
      )}
    </>
  );
}
