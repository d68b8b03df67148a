// Syntax highlighting for common languages, loaded when code is first shown. Code in other languages
// is shown without colors.
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

/** Longer code is not highlighted, because that would block the page. */
const CHARS_MAX = 12_000;

const languages = { bash, c, diff, go, ini, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);
hljs.registerAliases(['console', 'shell'], { languageName: 'bash' });
hljs.registerAliases(['tsx', 'javascript', 'js', 'jsx', 'mjs'], { languageName: 'typescript' });
hljs.registerAliases(['cpp', 'c++', 'h'], { languageName: 'c' });

/** HTML that contains only escaped text and spans with classes; null for an unknown language. */
export function highlight(code: string, language: string): string | null {
  if (language && code.length <= CHARS_MAX && hljs.getLanguage(language)) {
    return hljs.highlight(code, { language, ignoreIllegals: true }).value;
  }
  return null;
}
