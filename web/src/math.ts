// Draws formulas with KaTeX, as MathML, which browsers lay out with their own fonts. Loaded when a
// message first contains a formula.
import katex from 'katex';

/** Longer formulas and more macro expansions are not drawn, because they would block the page. */
const CHARS_MAX = 5000;
const EXPANSIONS_MAX = 500;

/** Replaces the TeX source in an element by the formula. Wrong TeX stays as it is. */
export function drawFormula(element: HTMLElement): void {
  const source = element.textContent ?? '';
  if (source.length > CHARS_MAX) return;
  const target = document.createElement('span');
  try {
    katex.render(source, target, {
      displayMode: element.classList.contains('display'),
      output: 'mathml',
      throwOnError: true,
      trust: false,
      strict: 'ignore',
      maxExpand: EXPANSIONS_MAX,
    });
  } catch {
    element.classList.add('wrong');
    return;
  }
  element.title = source;
  element.replaceChildren(target);
}
