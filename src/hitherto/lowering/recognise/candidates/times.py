"""Timeline: rows whose last visible key follows any course; their first key by its complement."""

from collections.abc import Iterator

import numpy as np

from hitherto.lowering.recognise.region import Array, Region
from hitherto.mask import Mask, Not, Timeline


def times(on: Region, off: Region) -> Iterator[Mask]:
    """Yield the course of the edges of what is seen and hidden, and keys in order of sight."""
    some = on.rows
    keys = np.arange(on.k_len)
    if (on.last != on.last[:1, :1]).any():
        yield Timeline(_by_position(on, on.last - 1, some), keys)
    if (on.first != on.first[:1, :1]).any():
        yield Not(Timeline(_by_position(on, on.first - 1, some), keys))
    if (off.first != off.first[:1, :1]).any():
        yield Timeline(_by_position(off, off.first - 1, off.rows), keys)
    yield from _in_order_of_sight(on)


def _by_position(on: Region, row: Array, known: Array) -> Array:
    """Write times of queries from position 0 on; a query without one takes its predecessor's."""
    at = np.where(known, np.arange(on.q_len), 0)
    filled = np.take_along_axis(row, np.maximum.accumulate(at, 1), 1)
    every = np.concatenate([np.repeat(filled[:, :1], on.q_start, 1), filled], 1)
    return every[0] if (every == every[:1]).all() else every


def _in_order_of_sight(on: Region) -> Iterator[Mask]:
    """Keys seen by fewer queries come later: right where the rows are nested in one another."""
    if on.batch > 1:
        return
    ranks, k_time = np.unique(-on.of_key[0], return_inverse=True)
    seen_by_all_like_it = np.cumsum(np.bincount(k_time))
    q_time = np.searchsorted(seen_by_all_like_it, on.of_row[0], "right") - 1
    if 1 < ranks.size:
        yield Timeline(_by_position(on, q_time[None], np.ones((1, on.q_len), bool)), k_time)
