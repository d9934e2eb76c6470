// Facts of a mask on a grid, decided from its spans.

import { OPERATORS, Spans, combine, value } from "./spans";

export type Facts = {
  pairs: number;
  density: number;
  empty: number;
  firstEmpty: number[];
  /** The first pair that sees its future; null where none does. */
  future: [q: number, k: number] | null;
};

export function facts(spans: Spans): Facts {
  const { qLen, kLen } = spans.grid;
  const found = pairs(spans);
  let empty = 0;
  const firstEmpty: number[] = [];
  for (let run = 0; run < spans.runs; run++) {
    if (spans.offsets[run] !== spans.offsets[run + 1]) continue;
    const [start, stop] = [spans.starts[run], spans.starts[run + 1]];
    for (let q = start; q < stop && firstEmpty.length < 5; q++) firstEmpty.push(q);
    empty += stop - start;
  }
  return { pairs: found, density: found / Math.max(qLen * kLen, 1), empty, firstEmpty, future: firstFuture(spans) };
}

export function pairs(spans: Spans): number {
  let total = 0;
  for (let run = 0; run < spans.runs; run++) {
    const [q0, q1] = [spans.starts[run], spans.starts[run + 1]];
    const [height, rows] = [q1 - q0, ((q0 + q1 - 1) * (q1 - q0)) / 2];
    for (let e = spans.offsets[run] * 4; e < spans.offsets[run + 1] * 4; e += 4) {
      total += height * (spans.ends[e + 2] - spans.ends[e]) + rows * (spans.ends[e + 3] - spans.ends[e + 1]);
    }
  }
  return total;
}

/** An end that stands still is furthest ahead in a run's first row, so that row decides. */
function firstFuture(spans: Spans): [number, number] | null {
  for (let run = 0; run < spans.runs; run++) {
    const q = spans.starts[run];
    for (let e = spans.offsets[run] * 4; e < spans.offsets[run + 1] * 4; e += 4) {
      if (value(spans.ends, e + 2, q) > q + 1) return [q, Math.max(value(spans.ends, e, q), q + 1)];
    }
  }
  return null;
}

/** The first pair in a grid, row by row. */
export function firstCell(spans: Spans): [number, number] | null {
  for (let run = 0; run < spans.runs; run++) {
    const e = spans.offsets[run];
    if (e < spans.offsets[run + 1]) return [spans.starts[run], value(spans.ends, e * 4, spans.starts[run])];
  }
  return null;
}

export function difference(one: Spans, two: Spans): { pairs: number; first: [number, number] | null } {
  const differs = combine(one, two, OPERATORS.Xor);
  return { pairs: pairs(differs), first: firstCell(differs) };
}

export type Tiles = { full: number; partial: number; empty: number };

/** Tiles of block x block: those a kernel may skip, may run without a mask, and must mask. */
export function tiles(spans: Spans, block: number): Tiles {
  const { qStart, qLen, kLen } = spans.grid;
  const columns = Math.ceil(kLen / block);
  const touched = new Int32Array(columns + 2);
  const covered = new Float64Array(columns + 2);
  let [full, some, rows] = [0, 0, 0];
  for (let q0 = qStart; q0 < qStart + qLen; q0 += block, rows++) {
    const q1 = Math.min(q0 + block, qStart + qLen);
    let [low, high] = [columns, 0];
    for (let run = spans.runOf(q0), row = q0; row < q1; run++) {
      const stop = Math.min(spans.starts[run + 1], q1);
      for (let e = spans.offsets[run] * 4; e < spans.offsets[run + 1] * 4; e += 4) {
        const first = Math.floor(value(spans.ends, e, row) / block);
        const end = Math.ceil(value(spans.ends, e + 2, stop - 1) / block);
        touched[first]++;
        touched[end]--;
        [low, high] = [Math.min(low, first), Math.max(high, end)];
        const inner = value(spans.ends, e + 2, row);
        const [from, to] = [Math.ceil(value(spans.ends, e, stop - 1) / block), inner >= kLen ? columns : Math.floor(inner / block)];
        if (from < to) {
          covered[from] += stop - row;
          covered[to] -= stop - row;
        }
      }
      row = stop;
    }
    for (let j = low, open = 0, filled = 0; j <= high; j++) {
      open += touched[j];
      filled += covered[j];
      if (open && filled === q1 - q0) full++;
      else if (open) some++;
      touched[j] = covered[j] = 0;
    }
  }
  return { full, partial: some, empty: rows * columns - full - some };
}
