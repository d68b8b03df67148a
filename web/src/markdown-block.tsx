// Rendered Markdown: user messages, blocks of an answer, code blocks with a copy button.
import { useMemo } from 'preact/hooks';
import { ShowAll, useExpanded } from './collapsible';
import { CopyButton } from './copy-button';
import { CODE_LINES_MAX, fenceFor, parseCodeBlock, renderMarkdown } from './markdown';

/** A longer user message is truncated to `TRUNCATED_CHARS` until the user expands it. */
const USER_TEXT_CHARS_MAX = 6000;
const TRUNCATED_CHARS = 4000;

export function UserText({ text, name }: { text: string; name: string }) {
  const [open, toggle] = useExpanded(`long:${name}`);
  const isTruncated = !open && text.length > USER_TEXT_CHARS_MAX;
  return (
    <>
      <SafeHtml html={renderMarkdown(isTruncated ? text.slice(0, TRUNCATED_CHARS) : text)} />
      {isTruncated && <ShowAll count={text.length} of="characters" toggle={toggle} />}
    </>
  );
}

/** `html` must be the output of `renderMarkdown`. Unchanged HTML is not set again. */
export const SafeHtml = ({ html }: { html: string }) =>
  useMemo(() => <div class="prose" dangerouslySetInnerHTML={{ __html: html }} />, [html]);

/** One block of an answer. Code gets a copy button and is truncated if it is long. */
export function MarkdownBlock({ source, name }: { source: string; name: string }) {
  const code = useMemo(
    () => (/^\s{0,3}(```|~~~)/.test(source) ? parseCodeBlock(source) : null),
    [source],
  );
  return code ? <CodeBlock {...code} name={name} /> : <SafeHtml html={renderMarkdown(source)} />;
}

function CodeBlock({ text, lang, name }: { text: string; lang: string; name: string }) {
  const [open, toggle] = useExpanded(`code:${name}`);
  const lines = text.split('\n');
  const isTruncated = !open && lines.length > CODE_LINES_MAX;
  const fence = fenceFor(text);
  const shown = isTruncated ? lines.slice(0, CODE_LINES_MAX - 10).join('\n') : text;
  return (
    <figure class="code">
      <figcaption>
        <span>{lang || 'text'}</span>
        <CopyButton text={text} label="Copy code" />
      </figcaption>
      <SafeHtml html={renderMarkdown(`${fence}${lang}\n${shown}\n${fence}`)} />
      {isTruncated && <ShowAll count={lines.length} of="lines" toggle={toggle} />}
    </figure>
  );
}
