// Markdown of models and users. It is data: raw HTML in it is shown as text, links go nowhere but to http, https and
// mail, nothing is loaded from the network, and what comes out passes DOMPurify on top.
import DOMPurify from 'dompurify';
import { Lexer, Marked, type Token, type Tokens, type TokensList } from 'marked';
import { highlight } from './highlight';

/** Longer code is shown in part until it is asked for. */
export const CODE_LINES_MAX = 60;
/** A longer paragraph is drawn in pieces of this size. */
const PIECE_CHARS = 3000;
/** How many rendered blocks are kept. */
const KEPT = 600;

const escape = (text: string) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const safeLink = (href: string) => /^(https?:\/\/|mailto:)/i.test(href.trim());

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escape(text),
    link({ href, title, tokens }) {
      const words = this.parser.parseInline(tokens);
      if (!safeLink(href)) return words;
      return `<a href="${escape(href)}" rel="noopener noreferrer" target="_blank"${title ? ` title="${escape(title)}"` : ''}>${words}</a>`;
    },
    image: ({ href, text }) => (safeLink(href) ? `<a href="${escape(href)}" rel="noopener noreferrer" target="_blank">${escape(text || href)}</a>` : escape(text)),
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    code: ({ text, lang }) => `<pre tabindex="0"><code>${highlight(text, (lang ?? '').split(/\s/)[0] ?? '')}</code></pre>`,
    heading({ tokens, depth }) {
      // All of one level below the title: rows come and go, and a level that is left out confuses those who hear it.
      return `<h2 class="h${depth}">${this.parser.parseInline(tokens)}</h2>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    'a', 'p', 'br', 'hr', 'em', 'strong', 'del', 'code', 'pre', 'span', 'ul', 'ol', 'li', 'blockquote', 'h2',
    'table', 'thead', 'tbody', 'tr', 'th', 'td',
  ],
  ALLOWED_ATTR: ['href', 'rel', 'target', 'title', 'class', 'start', 'align', 'tabindex'],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  // These are no addresses, and would be measured as such.
  ADD_URI_SAFE_ATTR: ['rel', 'target', 'start', 'align', 'tabindex'],
};

const kept = new Map<string, string>();

/** Text that the parser gives up on, such as thousands of quotes inside each other, is shown as it is. */
function parsed(raw: string): string {
  try {
    return marked.parse(raw, { async: false });
  } catch {
    return `<p>${escape(raw)}</p>`;
  }
}

/** The blocks of a text. What is inside them is not looked at: that is for `render`, and costs more with each character. */
function lexed(text: string): TokensList {
  const lexer = new Lexer(marked.defaults);
  try {
    lexer.blockTokens(text.replace(/\r\n?/g, '\n'), lexer.tokens);
    return lexer.tokens;
  } catch {
    return Object.assign([{ type: 'paragraph', raw: text, text, tokens: [] }], { links: {} });
  }
}

/** A fence that the code itself does not end. */
export function fenceFor(code: string): string {
  let longest = 2;
  for (const [run] of code.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return '`'.repeat(longest + 1);
}

/** HTML of one block that is safe to put into the page. */
export function render(raw: string): string {
  let html = kept.get(raw);
  if (html === undefined) {
    html = DOMPurify.sanitize(parsed(raw), ALLOWED);
    if (kept.size >= KEPT) kept.delete(kept.keys().next().value!);
    kept.set(raw, html);
  }
  return html;
}

/** The blocks of a text, each of which can be drawn by itself. */
export function blocks(text: string): string[] {
  return join(lexed(text));
}

function join(tokens: Token[]): string[] {
  const links = (tokens as { links?: Record<string, { href: string; title: string }> }).links ?? {};
  const known = Object.entries(links);
  return tokens.filter((token) => token.type !== 'space' && token.type !== 'def').flatMap((token) => (isHuge(token) ? pieces(token.raw) : [withLinks(token, known)]));
}

const isHuge = (token: Token) => token.type === 'paragraph' && token.raw.length > 2 * PIECE_CHARS;

/** A paragraph without end is drawn in pieces: what was drawn of it is not drawn again with each word. */
function pieces(raw: string): string[] {
  const all: string[] = [];
  let start = 0;
  while (raw.length - start > PIECE_CHARS) {
    const space = raw.indexOf(' ', start + PIECE_CHARS);
    const end = space < 0 || space > start + 2 * PIECE_CHARS ? start + PIECE_CHARS : space;
    all.push(raw.slice(start, end));
    start = end;
  }
  return [...all, raw.slice(start)];
}

/** A block that uses a reference carries its definition with it. */
function withLinks(token: Token, links: [string, { href: string; title: string }][]): string {
  if (links.length === 0 || token.type === 'code') return token.raw;
  const used = links.filter(([name]) => token.raw.toLowerCase().includes(`[${name}]`));
  return used.length ? `${token.raw}\n\n${used.map(([name, { href }]) => `[${name}]: <${href}>`).join('\n')}` : token.raw;
}

/** The code of a block that is nothing but code. */
export function codeOf(raw: string): { text: string; lang: string } | null {
  const [token, ...more] = lexed(raw).filter((token) => token.type !== 'space');
  if (token?.type !== 'code' || more.length) return null;
  const { text, lang } = token as Tokens.Code;
  return { text, lang: (lang ?? '').split(/\s/)[0] ?? '' };
}

/** Splits a text that grows. Only what its last blocks may still become is looked at again. */
export class Splitter {
  private text = '';
  private done: string[] = [];
  private doneChars = 0;

  split(grown: string): string[] {
    const text = grown.replace(/\r\n?/g, '\n');
    if (!text.startsWith(this.text.slice(0, this.doneChars)) || /^ {0,3}\[[^\]]+\]:/m.test(text)) {
      this.done = [];
      this.doneChars = 0;
      this.text = text;
      return blocks(text);
    }
    this.text = text;
    const tokens = lexed(text.slice(this.doneChars));
    const settled = tokens.slice(0, Math.max(0, tokens.findLastIndex((token) => token.type !== 'space') - 1));
    const rest = tokens.slice(settled.length);
    for (const token of settled) {
      this.done.push(...join([token]));
      this.doneChars += token.raw.length;
    }
    return [...this.done, ...join(rest)];
  }
}
