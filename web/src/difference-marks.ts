// Marks the words that differ between the two sides of a comparison. The marks are highlights of the
// browser (CSS Custom Highlight API): the page is not changed, and Markdown stays as it is rendered.
import { differingWords } from './word-diff';

/** Where more than this part of the words differs, marks would cover everything. */
const MARKED_MAX = 0.7;

/** Text in these elements is not compared: times, names of models, buttons. */
const IGNORED = '.author, .turn-footer, button, .pair-note';

interface Word {
  text: string;
  node: Text;
  start: number;
}

function wordsOf(element: Element): Word[] {
  const words: Word[] = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    if (node.parentElement?.closest(IGNORED)) continue;
    for (const match of node.data.matchAll(/\S+/g)) {
      words.push({ text: match[0], node, start: match.index });
    }
  }
  return words;
}

function highlightNamed(name: string): Highlight | null {
  if (!('highlights' in CSS)) return null;
  const highlight = CSS.highlights.get(name) ?? new Highlight();
  CSS.highlights.set(name, highlight);
  return highlight;
}

function rangeOf({ node, start, text }: Word): Range {
  const range = new Range();
  range.setStart(node, start);
  range.setEnd(node, start + text.length);
  return range;
}

/** Marks the differing words of the elements `.left` and `.right` and counts them; the count is null
 * where most of them differ. Returns null if they are too long to be compared. */
export function markDifferences(pair: Element): { count: number | null; clear(): void } | null {
  const sides = ['.side.left', '.side.right'].map((side) => wordsOf(pair.querySelector(side)!));
  const [left, right] = sides as [Word[], Word[]];
  const texts = (words: Word[]) => words.map((word) => word.text);
  const differing = differingWords(texts(left), texts(right));
  if (!differing) return null;
  const highlight = highlightNamed('difference');
  const ranges = [
    ...[...differing[0]].map((n) => rangeOf(left[n]!)),
    ...[...differing[1]].map((n) => rangeOf(right[n]!)),
  ];
  const isMarked = ranges.length <= MARKED_MAX * (left.length + right.length);
  if (isMarked) for (const range of ranges) highlight?.add(range);
  return {
    count: isMarked ? ranges.length : null,
    clear: () => ranges.forEach((range) => highlight?.delete(range)),
  };
}
