// What a mask is: a predicate over absolute positions (q, k), as the Python side has it.

export class MaskError extends Error {
  /** Columns of the text that is wrong, where it is known. */
  at?: [number, number];
}

export type Range = [start: number, stop: number];
export type Where = { ranges: Range[] } | { bools: boolean[] };

export type Pair = { kind: "And" | "Or" | "Xor" | "Minus"; left: Mask; right: Mask };
export type Mask =
  | Pair
  | { kind: "Not"; mask: Mask }
  | { kind: "Shift"; mask: Mask; q: number; k: number }
  | { kind: "PerHead"; masks: Mask[] }
  | { kind: "Everything" | "Nothing" | "Causal" }
  | { kind: "Window"; width: number }
  | { kind: "Band"; before: number | null; after: number | null }
  | { kind: "Prefix"; length: number }
  | { kind: "Chunks"; size: number; start: number }
  | { kind: "BlockCausal"; size: number }
  | { kind: "Dilated"; width: number; step: number }
  | { kind: "Strided"; step: number }
  | { kind: "RandomBlocks"; block: number; count: number; seed: number }
  | { kind: "Segments"; ids: ArrayLike<number>; kIds: ArrayLike<number> | null }
  | { kind: "Queries" | "Keys"; where: Where }
  | { kind: "Timeline"; qTime: number[]; kTime: number[]; lookahead: number }
  | { kind: "Tree"; parents: number[]; start: number }
  | { kind: "Table"; array: boolean[][] }
  | { kind: "Batch"; rows: Mask[] };

export const SIGN = { And: "&", Or: "|", Xor: "^", Minus: "-" } as const;

export function isPair(mask: Mask): mask is Pair {
  return mask.kind in SIGN;
}

/** Sizes of the batch and head axes; 0 where a mask has none. */
export function axes(mask: Mask): [batch: number, heads: number] {
  if (isPair(mask)) {
    const [a, b] = [axes(mask.left), axes(mask.right)];
    return [join("batch", a[0], b[0]), join("head", a[1], b[1])];
  }
  switch (mask.kind) {
    case "Not":
    case "Shift":
      return axes(mask.mask);
    case "PerHead":
      return [Math.max(...mask.masks.map((part) => axes(part)[0])), mask.masks.length];
    case "Batch":
      return [mask.rows.length, Math.max(...mask.rows.map((row) => axes(row)[1]))];
  }
  return [0, 0];
}

function join(name: string, one: number, two: number): number {
  if (one > 1 && two > 1 && one !== two) {
    throw new MaskError(`${name} axis must have one size in all parts: ${one} and ${two}`);
  }
  return Math.max(one, two);
}

/** The mask of one batch row and head. */
export function select(mask: Mask, batch: number, head: number): Mask {
  if (isPair(mask)) {
    const [left, right] = [select(mask.left, batch, head), select(mask.right, batch, head)];
    return { kind: mask.kind, left, right };
  }
  switch (mask.kind) {
    case "Not":
      return { kind: "Not", mask: select(mask.mask, batch, head) };
    case "Shift":
      return { ...mask, mask: select(mask.mask, batch, head) };
    case "PerHead":
      return select(mask.masks[mask.masks.length > 1 ? head : 0], batch, 0);
    case "Batch":
      return select(mask.rows[mask.rows.length > 1 ? batch : 0], 0, head);
  }
  return mask;
}
