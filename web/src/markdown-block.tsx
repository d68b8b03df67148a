// Rendered Markdown: user messages, blocks of an answer, code blocks with a copy button.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { ShowAll, useExpanded } from './collapsible';
import { CopyButton } from './copy-button';
import { Diagram } from './diagram';
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
export function SafeHtml({ html }: { html: string }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (html.includes('class="math')) void drawFormulas(element.current!);
  }, [html]);
  return useMemo(
    () => <div class="prose" ref={element} dangerouslySetInnerHTML={{ __html: html }} />,
    [html],
  );
}

/** Where the renderer cannot be loaded, the source of the formulas stays. */
async function drawFormulas(element: HTMLElement): Promise<void> {
  const { drawFormula } = await import('./math');
  for (const formula of element.querySelectorAll<HTMLElement>('.math')) drawFormula(formula);
}

/** One block of an answer. Code gets a copy button and is truncated if it is long. */
export function MarkdownBlock({ source, name }: { source: string; name: string }) {
  const code = useMemo(
    () => (/^\s{0,3}(```|~~~)/.test(source) ? parseCodeBlock(source) : null),
    [source],
  );
  if (code?.lang === 'mermaid') return <Diagram source={code.text} name={name} />;
  return code ? <CodeBlock {...code} name={name} /> : <SafeHtml html={renderMarkdown(source)} />;
}

export function CodeBlock({ text, lang, name }: { text: string; lang: string; name: string }) {
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
