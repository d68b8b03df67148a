// Marks the words of a search in the row that it opened (CSS Custom Highlight API).

const NAME = 'found';

/** Marks the first occurrence of the words in an element. Without an element nothing is marked. */
export function markFound(element: Element | null, words: string): void {
  if (!('highlights' in CSS)) return;
  CSS.highlights.delete(NAME);
  if (!element) return;
  const wanted = words.toLowerCase();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    const start = node.data.toLowerCase().indexOf(wanted);
    if (start < 0) continue;
    const range = new Range();
    range.setStart(node, start);
    range.setEnd(node, start + wanted.length);
    CSS.highlights.set(NAME, new Highlight(range));
    return;
  }
}
