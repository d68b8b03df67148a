// Converts Markdown to safe HTML. The source is untrusted: raw HTML is shown as text, links can only
// be http, https and mailto, images become links, and DOMPurify sanitizes the result.
import DOMPurify from 'dompurify';
import { Lexer, Marked, type Token, type Tokens, type TokensList } from 'marked';
import { hasHighlighter, highlightCode } from './highlighter';
import { extensions } from './markdown-extensions';

/** Longer code blocks are truncated until the user expands them. */
export const CODE_LINES_MAX = 60;
/** A very long paragraph is split into pieces of about this size. */
const PIECE_CHARS = 3000;
/** Number of rendered blocks in the cache. */
const CACHED_MAX = 600;

const escape = (text: string) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
/** `text` and `attributes` must be escaped. */
const anchor = (href: string, text: string, attributes = '') =>
  `<a href="${escape(href)}" rel="noopener noreferrer" target="_blank"${attributes}>${text}</a>`;
const safeLink = (href: string) => /^(https?:\/\/|mailto:)/i.test(href.trim());

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escape(text),
    link({ href, title, tokens }) {
      const text = this.parser.parseInline(tokens);
      if (!safeLink(href)) return text;
      return anchor(href, text, title ? ` title="${escape(title)}"` : '');
    },
    image: ({ href, text }) => (safeLink(href) ? anchor(href, escape(text || href)) : escape(text)),
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    code: ({ text, lang }) =>
      `<pre tabindex="0"><code>${highlightCode(text, (lang ?? '').split(/\s/)[0] ?? '')}</code></pre>`,
    heading({ tokens, depth }) {
      // All headings are h2. Skipped levels are an accessibility error, and rows come and go.
      return `<h2 class="h${depth}">${this.parser.parseInline(tokens)}</h2>`;
    },
  },
});

marked.use(extensions);

const ALLOWED = {
  ALLOWED_TAGS: [
    'a',
    'p',
    'br',
    'hr',
    'em',
    'strong',
    'del',
    'code',
    'pre',
    'span',
    'sup',
    'div',
    'ul',
    'ol',
    'li',
    'blockquote',
    'h2',
    'table',
    'thead',
    'tbody',
    'tr',
    'th',
    'td',
  ],
  ALLOWED_ATTR: ['href', 'rel', 'target', 'title', 'class', 'start', 'align', 'tabindex', 'dir'],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  // DOMPurify would otherwise check the values of these attributes as URLs.
  ADD_URI_SAFE_ATTR: ['rel', 'target', 'start', 'align', 'tabindex', 'dir'],
};

const cache = new Map<string, string>();

/** The parser throws on some input, such as thousands of nested quotes. That is shown as text. */
function toHtml(source: string): string {
  try {
    // Each block has the direction of its own text. Raw HTML is escaped, so these are all tags.
    return marked
      .parse(source, { async: false })
      .replace(/<(p|li|blockquote|h2|td|th)(?=[ >])/g, '<$1 dir="auto"');
  } catch {
    return `<p>${escape(source)}</p>`;
  }
}

/** Block tokens only. Inline tokens are expensive; `renderMarkdown` parses them per block. */
function lexBlocks(text: string): TokensList {
  const lexer = new Lexer(marked.defaults);
  try {
    lexer.blockTokens(text.replace(/\r\n?/g, '\n'), lexer.tokens);
    return lexer.tokens;
  } catch {
    return Object.assign([{ type: 'paragraph', raw: text, text, tokens: [] }], { links: {} });
  }
}

/** A fence longer than every run of backticks in the code. */
export function fenceFor(code: string): string {
  let longest = 2;
  for (const [run] of code.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return '`'.repeat(longest + 1);
}

/** Safe HTML of one block. */
export function renderMarkdown(source: string): string {
  // Code that was rendered without colors is rendered again.
  const key = source.includes('```') ? `${hasHighlighter.value} ${source}` : source;
  let html = cache.get(key);
  if (html === undefined) {
    html = DOMPurify.sanitize(toHtml(source), ALLOWED);
    if (cache.size >= CACHED_MAX) cache.delete(cache.keys().next().value!);
    cache.set(key, html);
  }
  return html;
}

/** Splits a text into blocks that can be rendered independently. */
export function splitBlocks(text: string): string[] {
  return blockSources(lexBlocks(text));
}

function blockSources(tokens: Token[]): string[] {
  const links = (tokens as { links?: Record<string, { href: string; title: string }> }).links ?? {};
  const definitions = Object.entries(links);
  return tokens
    .filter((token) => token.type !== 'space' && token.type !== 'def')
    .flatMap((token) =>
      isHuge(token) ? splitParagraph(token.raw) : [withLinkDefinitions(token, definitions)],
    );
}

const isHuge = (token: Token) => token.type === 'paragraph' && token.raw.length > 2 * PIECE_CHARS;

/** Splits at spaces, so that a growing paragraph is not rendered again from its start. */
function splitParagraph(raw: string): string[] {
  const pieces: string[] = [];
  let start = 0;
  while (raw.length - start > PIECE_CHARS) {
    const space = raw.indexOf(' ', start + PIECE_CHARS);
    const end = space < 0 || space > start + 2 * PIECE_CHARS ? start + PIECE_CHARS : space;
    pieces.push(raw.slice(start, end));
    start = end;
  }
  return [...pieces, raw.slice(start)];
}

/** Appends the definitions of the link references that the block uses. */
function withLinkDefinitions(
  token: Token,
  links: [string, { href: string; title: string }][],
): string {
  if (links.length === 0 || token.type === 'code') return token.raw;
  const used = links.filter(([name]) => token.raw.toLowerCase().includes(`[${name}]`));
  return used.length
    ? `${token.raw}\n\n${used.map(([name, { href }]) => `[${name}]: <${href}>`).join('\n')}`
    : token.raw;
}

/** The content of a block that is exactly one code block; null for other blocks. */
export function parseCodeBlock(raw: string): { text: string; lang: string } | null {
  const [token, ...others] = lexBlocks(raw).filter((token) => token.type !== 'space');
  if (token?.type !== 'code' || others.length) return null;
  const { text, lang } = token as Tokens.Code;
  return { text, lang: (lang ?? '').split(/\s/)[0] ?? '' };
}

/** Splits a growing text. Only the last two blocks are parsed again, because new text can still
 * change them. */
export class IncrementalSplitter {
  #previous = '';
  #finished: string[] = [];
  #finishedChars = 0;

  split(grown: string): string[] {
    const text = grown.replace(/\r\n?/g, '\n');
    if (
      !text.startsWith(this.#previous.slice(0, this.#finishedChars)) ||
      /^ {0,3}\[[^\]]+\]:/m.test(text)
    ) {
      this.#finished = [];
      this.#finishedChars = 0;
      this.#previous = text;
      return splitBlocks(text);
    }
    this.#previous = text;
    const tokens = lexBlocks(text.slice(this.#finishedChars));
    const finishedTokens = tokens.slice(
      0,
      Math.max(0, tokens.findLastIndex((token) => token.type !== 'space') - 1),
    );
    const rest = tokens.slice(finishedTokens.length);
    for (const token of finishedTokens) {
      this.#finished.push(...blockSources([token]));
      this.#finishedChars += token.raw.length;
    }
    return [...this.#finished, ...blockSources(rest)];
  }
}
