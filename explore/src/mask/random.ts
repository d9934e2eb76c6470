// The counter-based draw behind RandomBlocks: the same blocks as the Python side, bit for bit.

const [SEED, BLOCK, DRAW] = [0x9e3779b97f4a7c15n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n];
const [MIX_1, MIX_2] = [0xbf58476d1ce4e5b9n, 0x94d049bb133111ebn];
const wrap = (x: bigint) => BigInt.asUintN(64, x);

/** The key blocks that query block n sees, ascending. Floyd's method; see RandomBlocks in Python. */
export function drawnBlocks(count: number, seed: number, n: number): number[] {
  if (n < 0) return [];
  const drawn = new Set<number>();
  for (let i = Math.max(count - n - 1, 0); i < count; i++) {
    const newest = n + 1 - count + i;
    const pick = Number(random(BigInt(seed), BigInt(n), BigInt(i)) % BigInt(newest + 1));
    drawn.add(drawn.has(pick) ? newest : pick);
  }
  return [...drawn].sort((a, b) => a - b);
}

function random(seed: bigint, n: bigint, i: bigint): bigint {
  let z = wrap(seed * SEED + n * BLOCK + i * DRAW);
  z = wrap((z ^ (z >> 30n)) * MIX_1);
  z = wrap((z ^ (z >> 27n)) * MIX_2);
  return z ^ (z >> 31n);
}
