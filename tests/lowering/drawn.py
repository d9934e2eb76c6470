"""Random masks on a few grids, for libraries that compile for every new shape."""

import random
from collections.abc import Iterator

import numpy as np

from hitherto.mask import evaluate
from strategies import Case, Reach, mask

GRIDS = [(13, 17, 4), (17, 13, 0), (7, 17, 3), (1, 13, 12), (16, 16, 0)]
"""(q_len, k_len, q_start): queries last, more queries than keys, in the middle, decode, square."""


def drawn(grid: tuple[int, int, int], count: int, leaves: int = 3, **axes: int) -> Iterator[Case]:
    """Yield the same masks for the same grid, for ever; `axes` as in `Reach`."""
    q_len, k_len, q_start = grid
    pick = random.Random(str(grid)).randint
    reach = Reach(q_start, q_start + q_len, 0, k_len, **axes)
    for _ in range(count):
        yield Case(mask(pick, reach, pick(1, leaves)), q_len, k_len, q_start)


def wanted(case: Case, batch: int = 1, heads: int = 1) -> np.ndarray:
    """Return the meaning of a case: bool (batch, heads, queries, keys)."""
    cells = evaluate(case.mask, case.q_pos, case.k_pos)
    cells = cells[(None,) * (4 - cells.ndim)]
    sizes = [max(one, two) for one, two in zip(cells.shape, (batch, heads), strict=False)]
    return np.broadcast_to(cells, (*sizes, *cells.shape[2:]))
