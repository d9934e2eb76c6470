// The meaning of every mask, one pair at a time. All else on this page is tested against it.

import { type Mask, MaskError, type Where } from "./node";
import { drawnBlocks } from "./random";

/** Whether query q may attend to key k, of a mask without axes. */
export function sees(mask: Mask, q: number, k: number): boolean {
  switch (mask.kind) {
    case "And": return sees(mask.left, q, k) && sees(mask.right, q, k);
    case "Or": return sees(mask.left, q, k) || sees(mask.right, q, k);
    case "Xor": return sees(mask.left, q, k) !== sees(mask.right, q, k);
    case "Minus": return sees(mask.left, q, k) && !sees(mask.right, q, k);
    case "Not": return !sees(mask.mask, q, k);
    case "Shift": return sees(mask.mask, q - mask.q, k - mask.k);
    case "Everything": return true;
    case "Nothing": return false;
    case "Causal": return k <= q;
    case "Window": return q - k >= 0 && q - k < mask.width;
    case "Band": return (mask.before === null || q - mask.before <= k) && (mask.after === null || k <= q + mask.after);
    case "Prefix": return k < mask.length;
    case "Chunks": return floor(q - mask.start, mask.size) === floor(k - mask.start, mask.size);
    case "BlockCausal": return floor(k, mask.size) <= floor(q, mask.size);
    case "Dilated": return q >= k && (q - k) % mask.step === 0 && (q - k) / mask.step < mask.width;
    case "Strided": return (q - k) % mask.step === 0;
    case "RandomBlocks": {
      const drawn = drawnBlocks(mask.count, mask.seed, floor(q, mask.block));
      return k >= 0 && drawn.includes(floor(k, mask.block));
    }
    case "Segments": {
      const id = at("Segments.ids", mask.ids, q);
      return id === at("Segments.k_ids", mask.kIds ?? mask.ids, k) && id >= 0;
    }
    case "Queries": return among("Queries.where", mask.where, q);
    case "Keys": return among("Keys.where", mask.where, k);
    case "Timeline":
      return at("Timeline.k_time", mask.kTime, k) <= at("Timeline.q_time", mask.qTime, q) + mask.lookahead;
    case "Tree": return inTree(mask.parents, mask.start, q, k);
    case "Table": return at("Table.array", at("Table.array", mask.array, q), k);
  }
  throw new MaskError("pick a batch row and a head of this mask first");
}

export function floor(x: number, size: number): number {
  return Math.floor(x / size);
}

/** Look a position up, or say that the data end before it. */
export function at<T>(argument: string, data: ArrayLike<T>, position: number): T {
  if (position < 0 || position >= data.length) {
    throw new MaskError(
      `${argument} must cover every position asked for; it has 0..${data.length - 1}, not position ${position}`,
    );
  }
  return data[position];
}

function among(argument: string, where: Where, position: number): boolean {
  if ("bools" in where) return at(argument, where.bools, position);
  return where.ranges.some(([start, stop]) => start <= position && position < stop);
}

function inTree(parents: number[], start: number, q: number, k: number): boolean {
  at("Tree.parents (query)", { length: start + parents.length }, Math.max(q, 0));
  at("Tree.parents (key)", { length: start + parents.length }, Math.max(k, 0));
  if (k < start) return true;
  for (let node = q - start; node >= 0; node = parents[node]) if (node === k - start) return true;
  return false;
}
