// The arithmetic of a long list of which little is drawn: where each row begins, and which row is at a place.

/** So many heights are kept of rows that may come back. */
const MEASURED_MAX = 20_000;

/** Rows by key, each with the height that was measured, or a guess until then. */
export class Heights {
  private keys: string[] = [];
  private guesses: number[] = [];
  private at = new Map<string, number>();
  private measured = new Map<string, number>();
  private starts = new Float64Array(1);
  /** The first row whose start has to be computed again. */
  private dirty = 0;

  /** Other rows; what was measured before is known again by its key. */
  reset(keys: string[], guesses: number[]): void {
    let same = 0;
    while (same < keys.length && same < this.keys.length && keys[same] === this.keys[same] && guesses[same] === this.guesses[same]) same++;
    this.keys = keys;
    this.guesses = guesses;
    this.at = new Map(keys.map((key, n) => [key, n]));
    if (this.starts.length < keys.length + 1) {
      const starts = new Float64Array(Math.max(keys.length + 1, this.starts.length * 2));
      starts.set(this.starts);
      this.starts = starts;
    }
    this.dirty = Math.min(this.dirty, same);
    if (this.measured.size > MEASURED_MAX) for (const key of this.measured.keys()) if (!this.at.has(key)) this.measured.delete(key);
  }

  get length(): number {
    return this.keys.length;
  }

  index(key: string): number {
    return this.at.get(key) ?? -1;
  }

  key(index: number): string | undefined {
    return this.keys[index];
  }

  height(index: number): number {
    return this.measured.get(this.keys[index] ?? '') ?? this.guesses[index] ?? 0;
  }

  /** Notes a measured height; whether it is news. */
  measure(key: string, height: number): boolean {
    const before = this.measured.get(key);
    if (before !== undefined && Math.abs(before - height) < 0.5) return false;
    this.measured.set(key, height);
    const index = this.at.get(key);
    if (index !== undefined) this.dirty = Math.min(this.dirty, index);
    return true;
  }

  /** A width that changed makes every height a guess again. */
  forget(): void {
    this.measured.clear();
    this.dirty = 0;
  }

  private settle(): void {
    for (let n = this.dirty; n < this.keys.length; n++) this.starts[n + 1] = this.starts[n]! + this.height(n);
    this.dirty = this.keys.length;
  }

  /** Where a row begins; where the last one ends for the index past it. */
  start(index: number): number {
    this.settle();
    return this.starts[Math.max(0, Math.min(index, this.keys.length))]!;
  }

  get total(): number {
    return this.start(this.keys.length);
  }

  /** The row that covers a place; the nearest one where none does. */
  find(y: number): number {
    this.settle();
    let [low, high] = [0, this.keys.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle]! <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  /** The rows that cover `from` to `to`, end excluded. */
  range(from: number, to: number): [number, number] {
    if (this.keys.length === 0) return [0, 0];
    return [this.find(from), Math.min(this.keys.length, this.find(to) + 1)];
  }
}
