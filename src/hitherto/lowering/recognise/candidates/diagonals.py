"""Strided and Dilated: single diagonals, some steps apart."""

from collections.abc import Iterator

import numpy as np

from hitherto.lowering.recognise.region import Region, common
from hitherto.mask import Dilated, Mask, Strided

MOST_STEP = 512
"""Steps that are tried, at most."""


def diagonals(on: Region, off: Region) -> Iterator[Mask]:
    """Yield diagonals by the step between lone keys, and the least that nothing hides."""
    alone = on.hi - on.lo == 1
    zero = on.q_stop - 1
    seen = np.flatnonzero(on.diagonals) - zero
    if not alone.any() or not seen.size:
        return
    hidden = off.diagonals
    steps = [int(np.gcd.reduce(seen)), _free_step(hidden, zero), *_gaps(on, alone)]
    for step in dict.fromkeys(steps):
        if step > 1:
            yield Strided(step)
            yield from _dilated(~hidden[zero::-step], int(-seen.min()), step)


def _gaps(on: Region, alone: np.ndarray) -> list[int]:
    """Return the usual distances between lone keys of one query."""
    row, key = (on.b * on.q_stop + on.q)[alone], on.lo[alone]
    order = np.lexsort((key, row))
    gaps = np.diff(key[order])[np.diff(row[order]) == 0]
    return common(gaps, 2)


def _dilated(free: np.ndarray, reach: int, step: int) -> Iterator[Mask]:
    """Yield the longest run of free steps back from the query, and the shortest that reaches."""
    loose = int(np.argmin(free)) if not free.all() else 0
    for width in {loose, min(loose, max(reach, 0) // step + 1)}:
        if width > 1:
            yield Dilated(width, step)


def _free_step(hidden: np.ndarray, zero: int) -> int:
    """Return the least step > 1 none of whose diagonals is hidden, 0 if there is none."""
    for step in range(2, min(MOST_STEP, hidden.size // 2)):
        if not hidden[zero % step :: step].any():
            return step
    return 0
