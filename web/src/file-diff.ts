// The diff of two versions of a file, and how much it changes.
import { diffLines, type DiffLine } from './diff';

/** Unchanged lines that stay at the ends, as context. */
const CONTEXT_LINES = 3;

/** Lines that are equal at both ends are left out first, so that long files can be compared. */
export function fileDiff(before: string, after: string): DiffLine[] {
  if (before === after) return [];
  const [a, b] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (
    end < a.length - start &&
    end < b.length - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  )
    end++;
  start = Math.max(0, start - CONTEXT_LINES);
  end = Math.max(0, end - CONTEXT_LINES);
  const part = (lines: string[]) => lines.slice(start, lines.length - end);
  const [old, now] = [part(a), part(b)];
  const lines: DiffLine[] =
    old.length === 0
      ? now.map((text) => ({ mark: '+', text }))
      : now.length === 0
        ? old.map((text) => ({ mark: '-', text }))
        : diffLines(old.join('\n'), now.join('\n'));
  return start > 0 ? [{ mark: '@', text: `⋯ line ${start + 1}` }, ...lines] : lines;
}

/** A text without lines has no line. */
const linesOf = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));

export function countChanges(lines: DiffLine[]): { added: number; removed: number } {
  const count = (mark: DiffLine['mark']) => lines.filter((line) => line.mark === mark).length;
  return { added: count('+'), removed: count('-') };
}

/** "+3 −1" */
export function changesText(lines: DiffLine[]): string {
  const { added, removed } = countChanges(lines);
  return `+${added} −${removed}`;
}
