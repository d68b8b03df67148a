// Differences between texts, by lines.

export interface Line {
  mark: ' ' | '+' | '-' | '@';
  text: string;
}

/** Texts with more lines are not compared but shown one after the other. */
const LINES_MAX = 400;
/** Unchanged lines that are shown around a change. */
const AROUND = 3;

/** The lines that were taken away and added, with a little of what stayed. */
export function compare(before: string, after: string): Line[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  if (a.length > LINES_MAX || b.length > LINES_MAX) return [...mark('-', a), ...mark('+', b)];
  // The longest common run of lines, counted from the end.
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  }
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ mark: ' ', text: a[i]! });
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || common[i + 1]![j]! >= common[i]![j + 1]!)) lines.push({ mark: '-', text: a[i++]! });
    else lines.push({ mark: '+', text: b[j++]! });
  }
  return shortened(lines);
}

const mark = (mark: '+' | '-', texts: string[]): Line[] => texts.map((text) => ({ mark, text }));

function shortened(lines: Line[]): Line[] {
  const near = lines.map(() => false);
  lines.forEach((line, n) => {
    if (line.mark !== ' ') for (let k = Math.max(0, n - AROUND); k <= Math.min(lines.length - 1, n + AROUND); k++) near[k] = true;
  });
  const short: Line[] = [];
  lines.forEach((line, n) => {
    if (near[n]) short.push(line);
    else if (n === 0 || near[n - 1]) short.push({ mark: '@', text: '⋯' });
  });
  return short;
}

/** The lines of a text that is itself a unified diff. */
export function unified(text: string): Line[] | null {
  if (!/^(diff --git |--- |\*\*\* Begin Patch|@@ )/m.test(text) || !/^[+-]/m.test(text)) return null;
  return text.split('\n').map((line): Line => {
    if (/^(diff |index |--- |\+\+\+ |@@|\*\*\*)/.test(line)) return { mark: '@', text: line };
    if (line.startsWith('+')) return { mark: '+', text: line.slice(1) };
    if (line.startsWith('-')) return { mark: '-', text: line.slice(1) };
    return { mark: ' ', text: line.startsWith(' ') ? line.slice(1) : line };
  });
}

const OLD = ['old_string', 'old_text', 'oldText', 'old_str', 'oldString'];
const NEW = ['new_string', 'new_text', 'newText', 'new_str', 'newString'];

const PATCHES = ['patch', 'diff', 'input'];

/** The parameters beside the change. */
export function without(params: unknown): unknown {
  const shown = [...OLD, ...NEW, ...PATCHES];
  return Object.fromEntries(Object.entries(params as object).filter(([name]) => !shown.includes(name)));
}

/** The change that a tool was called with, where its parameters say one. */
export function changeIn(params: unknown): Line[] | null {
  if (typeof params !== 'object' || params === null) return null;
  const fields = params as Record<string, unknown>;
  const text = (names: string[]) => names.map((name) => fields[name]).find((value): value is string => typeof value === 'string');
  const [before, after] = [text(OLD), text(NEW)];
  if (after !== undefined && before !== undefined) return compare(before, after);
  for (const name of PATCHES) {
    const value = fields[name];
    const lines = typeof value === 'string' ? unified(value) : null;
    if (lines) return lines;
  }
  return null;
}
