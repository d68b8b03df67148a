// DiffLine diffs: computed from two texts, or parsed from a unified diff.

export interface DiffLine {
  /** Unchanged, added, removed, or a header or omission. */
  mark: ' ' | '+' | '-' | '@';
  text: string;
}

/** Largest product of the numbers of lines. Larger texts are not compared: all old lines are shown as
 * removed, all new ones as added. */
const CELLS_MAX = 2_000_000;
/** Number of unchanged lines shown before and after a change. */
const CONTEXT_LINES = 3;

/** The changed lines with their context, from the longest common subsequence of lines. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  if (a.length * b.length > CELLS_MAX) return [...mark('-', a), ...mark('+', b)];
  // common[i][j] is the length of the longest common subsequence of a[i..] and b[j..].
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--)
      common[i]![j] =
        a[i] === b[j]
          ? common[i + 1]![j + 1]! + 1
          : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ mark: ' ', text: a[i]! });
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || common[i + 1]![j]! >= common[i]![j + 1]!))
      lines.push({ mark: '-', text: a[i++]! });
    else lines.push({ mark: '+', text: b[j++]! });
  }
  return omitUnchanged(lines);
}

const mark = (mark: '+' | '-', texts: string[]): DiffLine[] =>
  texts.map((text) => ({ mark, text }));

/** Replaces unchanged lines that are not near a change by one omission line. */
function omitUnchanged(lines: DiffLine[]): DiffLine[] {
  const near = lines.map(() => false);
  lines.forEach((line, n) => {
    if (line.mark !== ' ')
      for (
        let k = Math.max(0, n - CONTEXT_LINES);
        k <= Math.min(lines.length - 1, n + CONTEXT_LINES);
        k++
      )
        near[k] = true;
  });
  const result: DiffLine[] = [];
  lines.forEach((line, n) => {
    if (near[n]) result.push(line);
    else if (n === 0 || near[n - 1]) result.push({ mark: '@', text: '⋯' });
  });
  return result;
}

/** Parses a unified diff or a patch. Returns null if the text is neither. */
export function parseUnifiedDiff(text: string): DiffLine[] | null {
  if (!/^(diff --git |--- |\*\*\* Begin Patch|@@ )/m.test(text) || !/^[+-]/m.test(text))
    return null;
  return text.split('\n').map((line): DiffLine => {
    if (/^(diff |index |--- |\+\+\+ |@@|\*\*\*)/.test(line)) return { mark: '@', text: line };
    if (line.startsWith('+')) return { mark: '+', text: line.slice(1) };
    if (line.startsWith('-')) return { mark: '-', text: line.slice(1) };
    return { mark: ' ', text: line.startsWith(' ') ? line.slice(1) : line };
  });
}

/** Parameter names that common editing tools use. */
const OLD_TEXT_PARAMS = ['old_string', 'old_text', 'oldText', 'old_str', 'oldString'];
const NEW_TEXT_PARAMS = ['new_string', 'new_text', 'newText', 'new_str', 'newString'];

const PATCH_PARAMS = ['patch', 'diff', 'input'];

/** The parameters of a tool call without those that `changeInParams` shows as a diff. */
export function paramsWithoutChange(params: unknown): unknown {
  const changeParams = [...OLD_TEXT_PARAMS, ...NEW_TEXT_PARAMS, ...PATCH_PARAMS];
  return Object.fromEntries(
    Object.entries(params as object).filter(([name]) => !changeParams.includes(name)),
  );
}

/** The diff contained in the parameters of a tool call; null if there is none. */
export function changeInParams(params: unknown): DiffLine[] | null {
  if (typeof params !== 'object' || params === null) return null;
  const fields = params as Record<string, unknown>;
  const text = (names: string[]) =>
    names.map((name) => fields[name]).find((value): value is string => typeof value === 'string');
  const [before, after] = [text(OLD_TEXT_PARAMS), text(NEW_TEXT_PARAMS)];
  if (after !== undefined && before !== undefined) return diffLines(before, after);
  for (const name of PATCH_PARAMS) {
    const value = fields[name];
    const lines = typeof value === 'string' ? parseUnifiedDiff(value) : null;
    if (lines) return lines;
  }
  return null;
}
