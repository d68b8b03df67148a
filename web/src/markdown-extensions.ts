// Markdown beyond GitHub's: formulas, footnotes, tables that scroll.
import { Renderer, type MarkedExtension, type TokenizerAndRendererExtension } from 'marked';

const escape = (text: string) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** The TeX source is shown until math.ts draws it. */
const formula = (text: string, display: boolean) =>
  `<span class="math${display ? ' display' : ''}">${escape(text.trim())}</span>`;

const blockFormula: TokenizerAndRendererExtension = {
  name: 'blockFormula',
  level: 'block',
  start: (source) => /(?:^|\n)(?:\$\$|\\\[)/.exec(source)?.index,
  tokenizer(source) {
    const match = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n+|$)/.exec(source);
    if (!match) return undefined;
    return { type: 'blockFormula', raw: match[0], text: match[1] ?? match[2] };
  },
  renderer: ({ text }) => `<p>${formula(text, true)}</p>`,
};

/** A dollar sign before a number or a name, such as `$5` or `$HOME`, starts no formula. */
const INLINE_FORMULA =
  /^(?:\$\$([^$\n]+?)\$\$|\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?!\w)|\\\(([^\n]+?)\\\))/;

const inlineFormula: TokenizerAndRendererExtension = {
  name: 'inlineFormula',
  level: 'inline',
  start: (source) => /\$|\\\(/.exec(source)?.index,
  tokenizer(source) {
    const match = INLINE_FORMULA.exec(source);
    if (!match) return undefined;
    const text = match[1] ?? match[2] ?? match[3];
    return { type: 'inlineFormula', raw: match[0], text, display: match[1] !== undefined };
  },
  renderer: ({ text, display }) => formula(text, display),
};

const footnote: TokenizerAndRendererExtension = {
  name: 'footnote',
  level: 'block',
  start: (source) => /(?:^|\n)\[\^/.exec(source)?.index,
  tokenizer(source) {
    const match = /^\[\^([^\]\s]{1,40})\]:[ \t]+(.*(?:\n[ \t]+\S.*)*)(?:\n+|$)/.exec(source);
    if (!match) return undefined;
    const text = match[2]!.replace(/\n[ \t]+/g, '\n');
    const token = { type: 'footnote', raw: match[0], label: match[1], text, tokens: [] };
    this.lexer.inline(text, token.tokens);
    return token;
  },
  renderer({ label, tokens }) {
    return `<p class="footnote"><sup>${escape(label)}</sup> ${this.parser.parseInline(tokens!)}</p>`;
  },
};

const footnoteReference: TokenizerAndRendererExtension = {
  name: 'footnoteReference',
  level: 'inline',
  start: (source) => /\[\^/.exec(source)?.index,
  tokenizer(source) {
    const match = /^\[\^([^\]\s]{1,40})\]/.exec(source);
    return match ? { type: 'footnoteReference', raw: match[0], label: match[1] } : undefined;
  },
  renderer: ({ label }) => `<sup class="footnote-reference">${escape(label)}</sup>`,
};

export const extensions: MarkedExtension = {
  extensions: [blockFormula, inlineFormula, footnote, footnoteReference],
  renderer: {
    table(token) {
      const table = Renderer.prototype.table.call(this, token);
      return `<div class="table-scroll" tabindex="0">${table}</div>`;
    },
  },
};
