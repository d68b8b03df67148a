// Which words of two texts differ.

/** Longer texts are not compared, because the time grows with the product of their lengths. */
const WORDS_MAX = 3000;

/** The indexes of the words that are not in a longest common subsequence; null if a text is too
 * long. */
export function differingWords(a: string[], b: string[]): [Set<number>, Set<number>] | null {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  const rest = Math.min(a.length, b.length) - start;
  while (end < rest && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const [rows, columns] = [a.length - start - end, b.length - start - end];
  if (rows > WORDS_MAX || columns > WORDS_MAX) return null;
  // Lengths of the longest common subsequences of the ends of both texts.
  const width = columns + 1;
  const lengths = new Uint16Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      lengths[i * width + j] =
        a[start + i] === b[start + j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const [left, right] = [new Set<number>(), new Set<number>()];
  let [i, j] = [0, 0];
  while (i < rows || j < columns) {
    if (i < rows && j < columns && a[start + i] === b[start + j]) {
      i++;
      j++;
    } else if (
      j >= columns ||
      (i < rows && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)
    ) {
      left.add(start + i++);
    } else right.add(start + j++);
  }
  return [left, right];
}
