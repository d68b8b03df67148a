// The layout of a treemap: rectangles whose areas are proportional to values, close to squares.

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A rectangle per value, in the order of the values, which must be sorted from large to small. */
export function treemap(values: number[], { x, y, width, height }: Rect): Rect[] {
  const total = values.reduce((sum, value) => sum + value, 0);
  if (total <= 0 || width <= 0 || height <= 0) return [];
  const areas = values.map((value) => (value / total) * width * height);
  const rects: Rect[] = [];
  let free: Rect = { x, y, width, height };
  let next = 0;
  while (next < areas.length) {
    const side = Math.min(free.width, free.height);
    let count = 1;
    // A row takes another rectangle while the worst ratio of its rectangles gets better.
    while (
      next + count < areas.length &&
      worst(areas.slice(next, next + count + 1), side) <=
        worst(areas.slice(next, next + count), side)
    )
      count++;
    free = placeRow(areas.slice(next, next + count), free, rects);
    next += count;
  }
  return rects;
}

/** The largest ratio of the sides of rectangles in a row along a side. */
function worst(row: number[], side: number): number {
  const sum = row.reduce((total, area) => total + area, 0);
  const depth = sum / side;
  return Math.max(...row.map((area) => Math.max(depth ** 2 / area, area / depth ** 2)));
}

/** Adds a row along the shorter side and returns the rest of the rectangle. */
function placeRow(row: number[], free: Rect, rects: Rect[]): Rect {
  const sum = row.reduce((total, area) => total + area, 0);
  const isTall = free.width >= free.height;
  const depth = sum / (isTall ? free.height : free.width);
  let at = 0;
  for (const area of row) {
    const length = area / depth;
    rects.push(
      isTall
        ? { x: free.x, y: free.y + at, width: depth, height: length }
        : { x: free.x + at, y: free.y, width: length, height: depth },
    );
    at += length;
  }
  return isTall
    ? { ...free, x: free.x + depth, width: free.width - depth }
    : { ...free, y: free.y + depth, height: free.height - depth };
}
