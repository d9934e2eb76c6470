// The normal form: runs of rows, in each ordered disjoint spans of keys [a + s*q, b + t*q), s and t
// 0 or 1. Closed under & | ~, exact at any length, and no queries x keys array anywhere.

import { MaskError } from "./node";

/** Numbers of one span, four in a row: a, s, b, t. */
const SIZE = 4;
/** Runs or spans of a grid, at most: more would make a page wait for seconds. */
const MOST = 300_000;

/** Rows qStart .. by keys kStart .. of absolute positions. */
export type Grid = { qStart: number; qLen: number; kStart: number; kLen: number };

export class Spans {
  constructor(
    readonly grid: Grid,
    /** First row of each run; the last entry is one past the last row. */
    readonly starts: Float64Array,
    /** Where each run's spans begin in `ends`, counted in spans. */
    readonly offsets: Int32Array,
    readonly ends: Float64Array,
  ) {}

  get runs(): number {
    return this.starts.length - 1;
  }

  get entries(): number {
    return this.ends.length / SIZE;
  }

  /** The run of a row on the grid. */
  runOf(q: number): number {
    let [low, high] = [0, this.runs - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= q) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Keys that row q sees, as ranges. */
  row(q: number): [number, number][] {
    const run = this.runOf(q);
    const found: [number, number][] = [];
    for (let e = this.offsets[run]; e < this.offsets[run + 1]; e++) {
      found.push([value(this.ends, e * SIZE, q), value(this.ends, e * SIZE + 2, q)]);
    }
    return found;
  }
}

/** An end at a row: `ends[at]` is its offset, the number after it its slope. */
export function value(ends: ArrayLike<number>, at: number, q: number): number {
  return ends[at] + ends[at + 1] * q;
}

/** Collects runs from the first row to the last, and joins those that continue the one before. */
export class Builder {
  private starts: number[] = [];
  private offsets: number[] = [0];
  private ends: number[] = [];

  constructor(private grid: Grid) {}

  /** Add rows from `start` to the next call's start; `ends` are ordered and not empty. */
  add(start: number, stop: number, ends: number[]): void {
    if (stop <= start) return;
    const count = this.starts.length;
    if (count && this.joins(start, stop, ends)) return;
    this.starts.push(start);
    for (const end of ends) this.ends.push(end);
    this.offsets.push(this.ends.length / SIZE);
    if (this.ends.length > MOST * SIZE || this.starts.length > MOST) {
      throw new MaskError("mask has too many pieces for this page; draw fewer rows, or use `hitherto show`");
    }
  }

  private joins(start: number, stop: number, ends: number[]): boolean {
    const last = this.starts.length - 1;
    const from = this.offsets[last] * SIZE;
    if (this.ends.length - from !== ends.length) return false;
    if (ends.every((x, i) => x === this.ends[from + i])) return true;
    const [single, before] = [stop - start === 1, start - this.starts[last] === 1];
    const agrees = (q: number) => {
      for (let i = 0; i < ends.length; i += 2) {
        if (value(ends, i, q) !== value(this.ends, from + i, q)) return false;
      }
      return true;
    };
    if (single && agrees(start)) return true;
    if (before && agrees(start - 1)) {
      ends.forEach((x, i) => (this.ends[from + i] = x));
      return true;
    }
    return single && before && this.diagonal(start, from, ends);
  }

  /** Two single rows whose ends all move by 0 or 1 are one run. */
  private diagonal(start: number, from: number, ends: number[]): boolean {
    const moved: number[] = [];
    for (let i = 0; i < ends.length; i += 2) {
      const [then, now] = [value(this.ends, from + i, start - 1), value(ends, i, start)];
      const step = now - then;
      if (step !== 0 && step !== 1) return false;
      moved.push(now - step * start, step);
    }
    moved.forEach((x, i) => (this.ends[from + i] = x));
    return true;
  }

  done(): Spans {
    const { qStart, qLen } = this.grid;
    return new Spans(
      this.grid,
      Float64Array.from([...this.starts, qStart + qLen]),
      Int32Array.from(this.offsets),
      Float64Array.from(this.ends),
    );
  }
}

export type Combine = (a: boolean, b: boolean) => boolean;
export const OPERATORS: Record<string, Combine> = {
  And: (a, b) => a && b,
  Or: (a, b) => a || b,
  Xor: (a, b) => a !== b,
  Minus: (a, b) => a && !b,
};

/** Merge two grids of the same size. Rows are cut where an end of one crosses an end of the other. */
export function combine(one: Spans, two: Spans, keep: Combine): Spans {
  const built = new Builder(one.grid);
  let [i, j] = [0, 0];
  let row = one.grid.qStart;
  const stop = row + one.grid.qLen;
  while (row < stop) {
    while (one.starts[i + 1] <= row) i++;
    while (two.starts[j + 1] <= row) j++;
    const next = Math.min(one.starts[i + 1], two.starts[j + 1], stop);
    const a = one.ends.subarray(one.offsets[i] * SIZE, one.offsets[i + 1] * SIZE);
    const b = two.ends.subarray(two.offsets[j] * SIZE, two.offsets[j + 1] * SIZE);
    const cuts = crossings(a, b, row, next);
    for (let c = 0; c + 1 < cuts.length; c++) {
      built.add(cuts[c], cuts[c + 1], merge(a, b, cuts[c], keep));
    }
    row = next;
  }
  return built.done();
}

/** Rows of [start, stop) at which the order of the ends changes, each tie a row of its own. */
function crossings(a: Float64Array, b: Float64Array, start: number, stop: number): number[] {
  if (stop - start === 1) return [start, stop];
  const cuts: number[] = [];
  const meet = (still: Float64Array, moving: Float64Array) => {
    for (let j = 0; j < moving.length; j += 2) {
      if (!moving[j + 1]) continue;
      for (let i = 0; i < still.length; i += 2) {
        if (still[i + 1]) continue;
        const row = still[i] - moving[j];
        if (row > start && row < stop) cuts.push(row);
        if (row >= start && row + 1 < stop) cuts.push(row + 1);
      }
    }
  };
  meet(a, b);
  meet(b, a);
  if (!cuts.length) return [start, stop];
  cuts.sort((x, y) => x - y);
  return [start, ...cuts.filter((row, i) => row !== cuts[i - 1]), stop];
}

/** Sweep the ends of both from left to right, at a row where their order is that of the run. */
function merge(a: Float64Array, b: Float64Array, row: number, keep: Combine): number[] {
  const out: number[] = [];
  let [i, j] = [0, 0];
  let [inA, inB, open] = [false, false, false];
  while (i < a.length || j < b.length) {
    const [va, vb] = [i < a.length ? value(a, i, row) : Infinity, j < b.length ? value(b, j, row) : Infinity];
    const at = Math.min(va, vb);
    let [offset, slope] = va === at ? [a[i], a[i + 1]] : [b[j], b[j + 1]];
    // A span that is empty here toggles twice at one place, which leaves nothing.
    while (i < a.length && value(a, i, row) === at) {
      inA = !inA;
      [offset, slope] = [a[i], a[i + 1]];
      i += 2;
    }
    while (j < b.length && value(b, j, row) === at) {
      inB = !inB;
      j += 2;
    }
    const now = keep(inA, inB);
    if (now !== open) {
      out.push(offset, slope);
      open = now;
    }
  }
  return out;
}

/** One run over the whole grid. */
export function oneRun(grid: Grid, ends: number[]): Spans {
  const built = new Builder(grid);
  built.add(grid.qStart, grid.qStart + grid.qLen, ends);
  return built.done();
}

export function full(grid: Grid): Spans {
  return oneRun(grid, grid.kLen ? [grid.kStart, 0, grid.kStart + grid.kLen, 0] : []);
}
