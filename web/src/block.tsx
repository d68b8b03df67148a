// Words in the page: Markdown that was made safe, code that can be copied, folds that stay as they were left.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Icon, IconButton } from './bits';
import { CODE_LINES_MAX, codeOf, fenceFor, render } from './markdown';

/** A longer text of a user is shown in part until it is asked for. */
const LONG_CHARS = 6000;
const PART_CHARS = 4000;

/** Which folds are open, beyond the life of a row that is scrolled away. */
const unfolded = new Map<string, boolean>();

/** A user's text: as Markdown, in part where it is very long. */
export function Long({ text, name }: { text: string; name: string }) {
  const [open, toggle] = useFold(`long:${name}`, false);
  const cut = !open && text.length > LONG_CHARS;
  return (
    <>
      <Html html={render(cut ? text.slice(0, PART_CHARS) : text)} />
      {cut && (
        <button type="button" class="link" onClick={toggle}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </>
  );
}

/** HTML that was made safe; the same words are not put into the page twice. */
export const Html = ({ html }: { html: string }) => useMemo(() => <div class="prose" dangerouslySetInnerHTML={{ __html: html }} />, [html]);

/** A block of an answer; code can be copied, and very long code is shown in part. */
export function Block({ raw, name }: { raw: string; name: string }) {
  const code = useMemo(() => (/^\s{0,3}(```|~~~)/.test(raw) ? codeOf(raw) : null), [raw]);
  return code ? <Code {...code} name={name} /> : <Html html={render(raw)} />;
}

function Code({ text, lang, name }: { text: string; lang: string; name: string }) {
  const [open, toggle] = useFold(`code:${name}`, false);
  const lines = text.split('\n');
  const cut = !open && lines.length > CODE_LINES_MAX;
  const fence = fenceFor(text);
  return (
    <figure class="code">
      <figcaption>
        <span>{lang || 'text'}</span>
        <Copy text={text} label="Copy code" />
      </figcaption>
      <Html html={render(`${fence}${lang}\n${cut ? lines.slice(0, CODE_LINES_MAX - 10).join('\n') : text}\n${fence}`)} />
      {cut && (
        <button type="button" class="link" onClick={toggle}>
          Show all {lines.length} lines
        </button>
      )}
    </figure>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      // Not allowed here; the words can still be marked.
    }
  };
  return <IconButton icon={done ? 'task' : 'copy'} label={done ? 'Copied' : label} onClick={() => void copy()} />;
}

export function useFold(name: string, start: boolean): [boolean, () => void] {
  const [open, setOpen] = useState(unfolded.get(name) ?? start);
  const toggle = () => {
    if (unfolded.size > 5000) unfolded.clear();
    unfolded.set(name, !open);
    setOpen(!open);
  };
  return [open, toggle];
}

export function Fold({ name, title, children, tone }: { name: string; title: ComponentChildren; children: () => ComponentChildren; tone?: string }) {
  const [open, toggle] = useFold(name, false);
  return (
    <div class={`fold ${tone ?? ''} ${open ? 'open' : ''}`}>
      <button type="button" class="fold-title" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        {title}
      </button>
      {open && <div class="fold-body">{children()}</div>}
    </div>
  );
}

