"""Keys and Queries: whole columns and whole rows."""

from collections.abc import Iterator

import numpy as np

from hitherto.lowering.recognise.region import Array, Region
from hitherto.mask import Keys, Mask, Queries

MOST_RANGES = 64
"""A list of more ranges is written as a bool for each position."""


def keys(on: Region, off: Region) -> Iterator[Mask]:
    """Yield the keys that are seen, and those of them that are hidden from none."""
    seen = on.keys
    for where in (seen, seen & ~off.keys):
        if where.any() and not where.all():
            yield Keys(ranges_or_bools(where))


def queries(on: Region, off: Region) -> Iterator[Mask]:
    """Yield the queries that see something, and those of them that miss nothing."""
    seen = on.rows
    for where in (seen, seen & ~off.rows):
        if where.any() and not where.all():
            yield Queries(ranges_or_bools(where, on.q_start))


def ranges_or_bools(where: Array, start: int = 0) -> list[range] | Array:
    """Return bools (batch, positions) as few ranges if all rows are alike, else from position 0."""
    if (where == where[:1]).all():
        where = where[0]
        flips = np.flatnonzero(np.diff(where.astype(np.int8), prepend=0, append=0)) + start
        if flips.size <= 2 * MOST_RANGES:
            return [range(int(x), int(y)) for x, y in flips.reshape(-1, 2)]
    before = np.zeros((*where.shape[:-1], start), bool)
    return np.concatenate([before, where], -1)
