// Colors for code. The highlighter is loaded when code with a language is first shown; until then
// code has no colors.
import { signal } from '@preact/signals';

type Highlight = (code: string, language: string) => string | null;

let load: Promise<void> | null = null;
let highlight: Highlight | null = null;

/** True once the highlighter is loaded. Blocks with code are drawn again then. */
export const hasHighlighter = signal(false);

/** HTML that contains only escaped text and spans with classes. */
export function highlightCode(code: string, language: string): string {
  if (language && !highlight) {
    load ??= import('./syntax-highlight').then(
      (module) => {
        highlight = module.highlight;
        hasHighlighter.value = true;
      },
      () => undefined,
    );
  }
  const colored = language ? (highlight?.(code, language) ?? null) : null;
  return colored ?? code.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]!);
}
