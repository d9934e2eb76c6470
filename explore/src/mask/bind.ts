// Put a mask on a grid: each mask of its own as runs, then the algebra.

import { at, floor } from "./evaluate";
import { type Mask, MaskError, type Range, type Where, isPair } from "./node";
import { drawnBlocks } from "./random";
import { Builder, type Grid, OPERATORS, Spans, combine, full, oneRun } from "./spans";

/** Distances k - q that matter: first, and one past the last. */
type Reach = [least: number, most: number];
const MOST_DIAGONALS = 2048;
/** Further than any key, and yet a whole number when added to any position. */
const FAR = 2 ** 50;
export const LONGEST = 2 ** 26;

/** Bind a mask without axes. Throws a MaskError for what cannot be drawn. */
export function bind(mask: Mask, grid: Grid): Spans {
  const { qStart, qLen, kStart, kLen } = grid;
  if (![qStart, qLen, kStart, kLen].every((x) => Number.isInteger(x) && x >= 0 && x <= LONGEST)) {
    throw new MaskError("lengths must be whole numbers from 0 to 64M");
  }
  return put(mask, grid, [kStart - (qStart + qLen), kStart + kLen - qStart]);
}

function put(mask: Mask, grid: Grid, reach: Reach): Spans {
  if (isPair(mask)) {
    const { kind, left, right } = mask;
    const narrow = kind === "And" || kind === "Minus";
    const swap = kind === "And" && asksReach(left) && !asksReach(right);
    const [first, second] = swap ? [right, left] : [left, right];
    const one = put(first, grid, reach);
    const two = put(second, grid, narrow ? within(one, reach) : reach);
    return combine(one, two, OPERATORS[kind]);
  }
  if (mask.kind === "Not") return combine(full(grid), put(mask.mask, grid, reach), OPERATORS.Minus);
  if (mask.kind === "Shift") return moved(mask.mask, mask.q, mask.k, grid, reach);
  return combine(full(grid), leaf(mask, grid, reach), OPERATORS.And);
}

function asksReach(mask: Mask): boolean {
  if (isPair(mask)) return asksReach(mask.left) || asksReach(mask.right);
  if (mask.kind === "Not" || mask.kind === "Shift") return asksReach(mask.mask);
  return mask.kind === "Strided" || mask.kind === "Dilated";
}

/** The distances that visible cells have: what is masked by & may be drawn there only. */
function within(spans: Spans, reach: Reach): Reach {
  let [least, most] = [Infinity, -Infinity];
  for (let run = 0; run < spans.runs; run++) {
    const [q0, q1] = [spans.starts[run], spans.starts[run + 1] - 1];
    for (let e = spans.offsets[run]; e < spans.offsets[run + 1]; e++) {
      const [a, s, b, t] = spans.ends.subarray(e * 4, e * 4 + 4);
      least = Math.min(least, a + (s - 1) * q0, a + (s - 1) * q1);
      most = Math.max(most, b + (t - 1) * q0, b + (t - 1) * q1);
    }
  }
  return [Math.max(reach[0], least), Math.min(reach[1], most)];
}

/** Bind the inner mask at the positions that it is asked at, and move the spans back. */
function moved(mask: Mask, dq: number, dk: number, grid: Grid, [least, most]: Reach): Spans {
  const asked = { ...grid, qStart: grid.qStart - dq, kStart: grid.kStart - dk };
  const inner = put(mask, asked, [least + dq - dk, most + dq - dk]);
  const ends = Float64Array.from(inner.ends);
  for (let i = 0; i < ends.length; i += 2) ends[i] += dk - ends[i + 1] * dq;
  return new Spans(grid, inner.starts.map((row) => row + dq), inner.offsets, ends);
}

/** A mask of its own as runs. Spans may reach beyond the keys, but none may end before it starts. */
function leaf(mask: Mask, grid: Grid, reach: Reach): Spans {
  const [q0, q1] = [grid.qStart, grid.qStart + grid.qLen];
  const [k0, k1] = [grid.kStart, grid.kStart + grid.kLen];
  const before = (key: number) => (key > k0 ? [k0, 0, key, 0] : []);
  switch (mask.kind) {
    case "Everything": return full(grid);
    case "Nothing": return oneRun(grid, []);
    case "Causal": return oneRun(grid, [-FAR, 1, 1, 1]);
    case "Window": return oneRun(grid, [1 - mask.width, 1, 1, 1]);
    case "Band": return oneRun(grid, [-(mask.before ?? FAR), 1, (mask.after ?? FAR) + 1, 1]);
    case "Prefix": return oneRun(grid, before(mask.length));
    case "Chunks": return steps(grid, mask.size, mask.start, (x) => still(x, x + mask.size));
    case "BlockCausal": return steps(grid, mask.size, 0, (x) => before(x + mask.size));
    case "Dilated": {
      const count = Math.min(mask.width, Math.floor(Math.max(-reach[0], 0) / mask.step) + 1);
      return diagonals(grid, 1 - count, 1, mask.step);
    }
    case "Strided": {
      const [first, stop] = reach.map((x) => Math.ceil(x / mask.step));
      return diagonals(grid, first, stop, mask.step);
    }
    case "RandomBlocks": {
      const { block, count, seed } = mask;
      return steps(grid, block, 0, (x) =>
        drawnBlocks(count, seed, x / block).flatMap((n) => still(n * block, (n + 1) * block)));
    }
    case "Segments": return segments(mask.ids, mask.kIds ?? mask.ids, grid);
    case "Queries": {
      const whole = before(k1);
      return perRow(grid, (q) => among(mask.where, q), (seen) => (seen ? whole : []));
    }
    case "Keys": return oneRun(grid, ranges(mask.where, k0, k1).flatMap(([x, y]) => still(x, y)));
    case "Timeline": {
      cover("Timeline.q_time", mask.qTime, q0, q1);
      cover("Timeline.k_time", mask.kTime, k0, k1);
      const seen = (by: number) => spansOf(k0, k1, (k) => mask.kTime[k] <= by);
      return perRow(grid, (q) => mask.qTime[q] + mask.lookahead, seen);
    }
    case "Tree": {
      const { parents, start } = mask;
      cover("Tree.parents (query)", { length: start + parents.length }, Math.max(q0, 0), q1);
      cover("Tree.parents (key)", { length: start + parents.length }, Math.max(k0, 0), k1);
      return perRow(grid, (q) => Math.max(q - start, -1), (node) => {
        const keys: number[] = [];
        for (let n = node; n >= 0; n = parents[n]) keys.push(start + n);
        const drafts = keys.sort((x, y) => x - y).flatMap((k) => still(k, k + 1));
        return joined([...before(start), ...drafts]);
      });
    }
    case "Table": {
      cover("Table.array queries", mask.array, q0, q1);
      cover("Table.array keys", mask.array[0], k0, k1);
      return perRow(grid, (q) => q, (q) => spansOf(k0, k1, (k) => mask.array[q][k]));
    }
  }
  throw new MaskError("pick a batch row and a head of this mask first");
}

function still(start: number, stop: number): number[] {
  return [start, 0, stop, 0];
}

/** Join still spans that touch. */
function joined(ends: number[]): number[] {
  const out: number[] = [];
  for (let i = 0; i < ends.length; i += 4) {
    if (out.length && out[out.length - 2] === ends[i]) out[out.length - 2] = ends[i + 2];
    else out.push(...ends.slice(i, i + 4));
  }
  return out;
}

function steps(grid: Grid, size: number, start: number, ends: (first: number) => number[]): Spans {
  const [q0, q1] = [grid.qStart, grid.qStart + grid.qLen];
  const built = new Builder(grid);
  for (let x = floor(q0 - start, size) * size + start; x < q1; x += size) {
    built.add(Math.max(x, q0), Math.min(x + size, q1), joined(ends(x)));
  }
  return built.done();
}

function diagonals(grid: Grid, first: number, stop: number, step: number): Spans {
  if (stop - first > MOST_DIAGONALS && step > 1) {
    throw new MaskError("mask must stay sparse or regular on a grid this long; combine it with & Window(...) or draw fewer rows");
  }
  if (step === 1) return oneRun(grid, stop > first ? [first, 1, stop, 1] : []);
  return oneRun(grid, Array.from({ length: Math.max(stop - first, 0) }, (_, i) =>
    [(first + i) * step, 1, (first + i) * step + 1, 1]).flat());
}

/** A run for each stretch of rows that share what `key` says of them. */
function perRow<T>(grid: Grid, key: (q: number) => T, ends: (key: T) => number[]): Spans {
  const stop = grid.qStart + grid.qLen;
  const built = new Builder(grid);
  let start = grid.qStart;
  for (let q = start; q < stop; ) {
    const now = key(q);
    while (q < stop && key(q) === now) q++;
    built.add(start, q, ends(now));
    start = q;
  }
  return built.done();
}

/** The spans of keys in [k0, k1) that pass a test. */
function spansOf(k0: number, k1: number, test: (k: number) => boolean): number[] {
  const out: number[] = [];
  for (let k = k0; k < k1; k++) {
    const start = k;
    while (k < k1 && test(k)) k++;
    if (k > start) out.push(...still(start, k));
  }
  return out;
}

function among(where: Where, q: number): boolean {
  if ("bools" in where) return at("Queries.where", where.bools, q);
  return where.ranges.some(([start, stop]) => start <= q && q < stop);
}

function ranges(where: Where, k0: number, k1: number): Range[] {
  if ("ranges" in where) return where.ranges;
  cover("Keys.where", where.bools, k0, k1);
  const found = spansOf(k0, k1, (k) => where.bools[k]);
  return Array.from({ length: found.length / 4 }, (_, i) => [found[i * 4], found[i * 4 + 2]]);
}

function cover(argument: string, data: { length: number }, start: number, stop: number): void {
  if (stop <= start) return;
  at(argument, data as ArrayLike<unknown>, start);
  at(argument, data as ArrayLike<unknown>, stop - 1);
}

function segments(ids: ArrayLike<number>, kIds: ArrayLike<number>, grid: Grid): Spans {
  const k1 = grid.kStart + grid.kLen;
  cover("Segments.ids", ids, grid.qStart, grid.qStart + grid.qLen);
  cover("Segments.k_ids", kIds, grid.kStart, k1);
  const of = new Map<number, number[]>();
  for (let k = grid.kStart; k < k1; ) {
    const start = k;
    while (k < k1 && kIds[k] === kIds[start]) k++;
    if (!of.has(kIds[start])) of.set(kIds[start], []);
    of.get(kIds[start])!.push(...still(start, k));
  }
  return perRow(grid, (q) => ids[q], (id) => (id < 0 ? [] : (of.get(id) ?? [])));
}
