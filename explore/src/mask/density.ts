// How many pairs are visible in each pixel, counted from spans in closed form.

import type { Spans } from "./spans";
import { value } from "./spans";

/**
 * Count the visible pairs in each pixel of one row of pixels; exact for any size.
 * Pixel j holds rows q0 <= q < q1 and keys kEdges[j] <= k < kEdges[j+1].
 */
export function countRow(spans: Spans, q0: number, q1: number, kEdges: Float64Array, row: Row): Float64Array {
  const { out, whole } = row;
  out.fill(0);
  whole.fill(0);
  for (let run = spans.runOf(q0), q = q0; q < q1; run++) {
    const stop = Math.min(spans.starts[run + 1], q1);
    for (let e = spans.offsets[run]; e < spans.offsets[run + 1]; e++) {
      add(spans.ends, e * 4, q, stop, kEdges, out, whole);
    }
    q = stop;
  }
  for (let j = 0, open = 0; j < out.length; j++) {
    open += whole[j];
    if (open) out[j] += open * (kEdges[j + 1] - kEdges[j]);
  }
  return out;
}

/** Room for one row of pixels: its counts, and rows of spans that open or end at a column. */
export type Row = { out: Float64Array; whole: Float64Array };

export function row(columns: number): Row {
  return { out: new Float64Array(columns), whole: new Float64Array(columns + 1) };
}

/** The same for all rows of a picture: rows x columns. */
export function counts(spans: Spans, qEdges: Float64Array, kEdges: Float64Array): Float64Array {
  const columns = kEdges.length - 1;
  const all = new Float64Array((qEdges.length - 1) * columns);
  const room = row(columns);
  for (let i = 0; i + 1 < qEdges.length; i++) {
    all.set(countRow(spans, qEdges[i], qEdges[i + 1], kEdges, room), i * columns);
  }
  return all;
}

/** Add one span over rows [row, stop): the columns its ends cross one by one, those between at once. */
function add(
  ends: Float64Array, e: number, row: number, stop: number,
  kEdges: Float64Array, out: Float64Array, whole: Float64Array,
): void {
  const columns = kEdges.length - 1;
  const height = stop - row;
  const [lo, hi] = [value(ends, e, row), value(ends, e + 2, stop - 1)];
  if (hi <= kEdges[0] || lo >= kEdges[columns]) return;
  // From loEnd on every row's span has begun; up to hiStart none has ended.
  const [loEnd, hiStart] = [value(ends, e, stop - 1), value(ends, e + 2, row)];
  const first = columnOf(kEdges, lo);
  const last = Math.min(columnOf(kEdges, hi - 1), columns - 1);
  let full = Math.max(columnOf(kEdges, loEnd - 1) + 1, first);
  while (full < columns && kEdges[full] < loEnd) full++;
  let fullStop = Math.min(columnOf(kEdges, hiStart), last + 1);
  if (fullStop < full) fullStop = full = last + 1;
  else {
    whole[full] += height;
    whole[fullStop] -= height;
  }
  for (let j = first; j <= last; j++) {
    if (j === full) j = fullStop;
    if (j > last) break;
    out[j] += below(ends, e, row, stop, kEdges[j + 1]) - below(ends, e, row, stop, kEdges[j]);
  }
}

/** The column that holds a key; those before the picture are in the first. */
function columnOf(kEdges: ArrayLike<number>, key: number): number {
  let [low, high] = [0, kEdges.length - 1];
  if (key < kEdges[0]) return 0;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (kEdges[middle] <= key) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Pairs of a span with a key below the edge, over rows [row, stop). */
function below(ends: Float64Array, e: number, row: number, stop: number, edge: number): number {
  return minima(ends[e + 2], ends[e + 3], row, stop, edge) - minima(ends[e], ends[e + 1], row, stop, edge);
}

/** Sum of min(base + slope*q, edge) over rows [row, stop). */
function minima(base: number, slope: number, row: number, stop: number, edge: number): number {
  const height = stop - row;
  if (slope === 0) return height * Math.min(base, edge);
  const rising = Math.max(0, Math.min(edge - base - row, height));
  return rising * (base + row) + (rising * (rising - 1)) / 2 + (height - rising) * edge;
}

/** Cut positions [start, stop) into pieces as equal as whole numbers allow. */
export function edges(start: number, stop: number, pieces: number): Float64Array {
  const length = stop - start;
  return Float64Array.from({ length: pieces + 1 }, (_, i) => start + Math.floor((i * length) / pieces));
}
