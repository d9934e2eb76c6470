"""The counter-based draw behind RandomBlocks."""

import numpy as np

from hitherto.mask.positions import RandomBlocks

_SEED, _BLOCK, _DRAW = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def drawn_blocks(mask: RandomBlocks, q_blocks: np.ndarray) -> np.ndarray:
    """Draw the key blocks of each query block: int64 (q_blocks, count), -1 = no block.

    See `RandomBlocks` for the rule. Cost: O(q_blocks * count**2).
    """
    n = np.asarray(q_blocks, np.int64)
    # Draws before the last max(n) + 1 fall on no block: the first blocks get all there are.
    skipped = max(mask.count - int(n.max(initial=-1)) - 1, 0)
    draws = np.full((n.size, mask.count - skipped), -1, np.int64)
    for i in range(mask.count - skipped):
        newest = n + 1 - mask.count + skipped + i
        pick = (
            _random(mask.seed, n, skipped + i) % np.maximum(newest + 1, 1).astype(np.uint64)
        ).astype(np.int64)
        taken = (draws[:, :i] == pick[:, None]).any(1)
        draws[:, i] = np.where(newest < 0, -1, np.where(taken, newest, pick))
    return draws


def _random(seed: int, n: np.ndarray, i: int) -> np.ndarray:
    """Mix (seed, block, draw) into 64 uniform bits: the splitmix64 finaliser of a counter."""
    constant = (seed * _SEED + i * _DRAW) % (1 << 64)
    z = n.astype(np.uint64) * np.uint64(_BLOCK) + np.uint64(constant)
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))
