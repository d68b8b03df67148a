// Row positions of a virtual list: measured heights, estimates for rows that were not drawn yet.

/** Above this number, heights of rows that are no longer in the list are dropped. */
const MEASURED_MAX = 20_000;

export class RowHeights {
  #keys: string[] = [];
  #estimates: number[] = [];
  #indexByKey = new Map<string, number>();
  #measured = new Map<string, number>();
  /** Start of each row in pixels, and the end of the last one. */
  #starts = new Float64Array(1);
  /** Starts after this index are out of date. */
  #validUntil = 0;

  /** Replaces the rows. Measured heights are kept by key. */
  reset(keys: string[], estimates: number[]): void {
    let same = 0;
    while (
      same < keys.length &&
      same < this.#keys.length &&
      keys[same] === this.#keys[same] &&
      estimates[same] === this.#estimates[same]
    ) {
      same++;
    }
    this.#keys = keys;
    this.#estimates = estimates;
    this.#indexByKey = new Map(keys.map((key, n) => [key, n]));
    if (this.#starts.length < keys.length + 1) {
      const starts = new Float64Array(Math.max(keys.length + 1, this.#starts.length * 2));
      starts.set(this.#starts);
      this.#starts = starts;
    }
    this.#validUntil = Math.min(this.#validUntil, same);
    if (this.#measured.size <= MEASURED_MAX) return;
    for (const key of this.#measured.keys()) {
      if (!this.#indexByKey.has(key)) this.#measured.delete(key);
    }
  }

  index(key: string): number {
    return this.#indexByKey.get(key) ?? -1;
  }

  height(index: number): number {
    return this.#measured.get(this.#keys[index] ?? '') ?? this.#estimates[index] ?? 0;
  }

  /** Stores a measured height. Returns false if it differs by less than half a pixel. */
  measure(key: string, height: number): boolean {
    const before = this.#measured.get(key);
    if (before !== undefined && Math.abs(before - height) < 0.5) return false;
    this.#measured.set(key, height);
    const index = this.#indexByKey.get(key);
    if (index !== undefined) this.#validUntil = Math.min(this.#validUntil, index);
    return true;
  }

  /** Drops all measured heights, because the width of the list changed. */
  clearMeasured(): void {
    this.#measured.clear();
    this.#validUntil = 0;
  }

  #updateStarts(): void {
    for (let n = this.#validUntil; n < this.#keys.length; n++)
      this.#starts[n + 1] = this.#starts[n]! + this.height(n);
    this.#validUntil = this.#keys.length;
  }

  /** Start of a row; for the index after the last row, the end of the list. */
  start(index: number): number {
    this.#updateStarts();
    return this.#starts[Math.max(0, Math.min(index, this.#keys.length))]!;
  }

  get total(): number {
    return this.start(this.#keys.length);
  }

  /** Index of the row at a position, or of the nearest row. */
  indexAt(y: number): number {
    this.#updateStarts();
    let [low, high] = [0, this.#keys.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts[middle]! <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  /** Index range of the rows between two positions, end excluded. */
  range(from: number, to: number): [number, number] {
    if (this.#keys.length === 0) return [0, 0];
    return [this.indexAt(from), Math.min(this.#keys.length, this.indexAt(to) + 1)];
  }
}
