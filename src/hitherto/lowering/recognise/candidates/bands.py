"""Causal, Window, Band and Prefix: edges that run beside the diagonal, or straight down."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from hitherto.lowering.recognise.region import Region, common
from hitherto.mask import Band, Causal, Mask, Prefix, Window


def bands(on: Region, off: Region) -> Iterator[Mask]:
    """Yield bands between the edges that run beside the diagonal."""
    least, most = 1 - on.q_stop, on.k_len - 1 - on.q_start
    first = {on.ahead[0], *common(on.lo - on.q), *common(off.hi - off.q, 2)}
    last = {on.ahead[1], *common(on.hi - on.q - 1), *common(off.lo - off.q - 1, 2)}
    pairs = set(product({least, *first}, {most, 0, *last})) | set(_free(on, off))
    for lo, hi in sorted(pairs):
        if lo <= hi:
            yield from _band(None if lo <= least else -lo, None if hi >= most else hi)


def _band(before: int | None, after: int | None) -> Iterator[Mask]:
    """Yield the band by its most usual name."""
    match before, after:
        case None, None:
            return
        case None, 0:
            yield Causal()
        case int(), 0:
            yield Window(before + 1)
        case _:
            yield Band(before, after)


def _free(on: Region, off: Region) -> Iterator[tuple[int, int]]:
    """Yield the widest runs of diagonals that hold cells of `on` and none of `off`."""
    free = np.diff(np.concatenate([[False], ~off.diagonals, [False]]).astype(np.int8))
    starts, stops = np.flatnonzero(free == 1), np.flatnonzero(free == -1)
    held = np.concatenate([[0], np.cumsum(on.of_diagonal)])
    cells = held[stops] - held[starts]
    for i in np.argsort(-cells, kind="stable")[:3]:
        if cells[i]:
            yield int(starts[i]) + 1 - on.q_stop, int(stops[i]) - on.q_stop


def prefixes(on: Region, off: Region) -> Iterator[Mask]:
    """Yield prefixes that end where edges run straight down."""
    straight = {*common(on.hi), *common(on.hi[on.lo == 0], 2), *common(off.lo, 2)}
    for length in sorted({_end(on.keys), _first(off.keys), *straight}):
        if 0 < length < on.k_len:
            yield Prefix(length)


def _first(keys: np.ndarray) -> int:
    return int(keys.any(0).argmax())


def _end(keys: np.ndarray) -> int:
    return keys.shape[1] - int(keys.any(0)[::-1].argmax())
