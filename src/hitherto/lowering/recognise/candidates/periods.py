"""Chunks, BlockCausal, RandomBlocks: edges that come back after as many positions."""

from collections.abc import Iterator

import numpy as np

from hitherto.lowering.recognise.region import Array, Region, common
from hitherto.mask import BlockCausal, Chunks, Mask, RandomBlocks, Shift

MOST_SIZES = 8
MOST_SEEDS = 100
"""Seeds of RandomBlocks that are tried: 0 .. 99."""


def periods(on: Region, off: Region) -> Iterator[Mask]:
    """Yield chunks and blocks of every size that the edges suggest."""
    sizes, starts = _sizes(on, off)
    for size in sizes:
        for start in dict.fromkeys([0, *(p % size for p in starts)]):
            if not start or start + size < on.positions:  # two chunks show no period
                yield Chunks(size, start)
            blocks = BlockCausal(size)
            yield Shift(blocks, q=start, k=start) if start else blocks
    yield from _random(on)


def _sizes(on: Region, off: Region) -> tuple[list[int], list[int]]:
    """Return (sizes, positions where a block may begin)."""
    corners = [
        np.unique(on.last[on.rows]),
        np.unique(on.first[on.rows]),
        np.flatnonzero(on.cuts.all(0)),
        _beside(off, ahead=1),
        _beside(off, ahead=-1),
    ]
    sizes, starts = [on.ahead[1] + 1, 1 - on.ahead[0]], []
    for places in corners:
        inner = places[(places > 0) & (places < on.positions)]
        gaps = np.diff(inner)
        sizes += common(gaps, 2)
        sizes += [int(np.gcd.reduce(gaps))] if gaps.size else []
        starts += inner[:2].tolist()
        sizes += [max(int(p), on.positions - int(p)) for p in inner[:1] if inner.size == 1]
        sizes += [int(np.gcd.reduce(inner))] if inner.size else []
    fit = [size for size in dict.fromkeys(sizes) if 1 < size < on.positions]
    return fit[:MOST_SIZES], list(dict.fromkeys(starts))[:4]


def _beside(off: Region, ahead: int) -> Array:
    """Return the later of the two positions where neighbours are hidden from one another."""
    next_to = (off.lo <= off.q + ahead) & (off.q + ahead < off.hi)
    return np.unique(off.q[next_to] + max(ahead, 0))


def _random(on: Region) -> Iterator[Mask]:
    """Yield the draws that have as many blocks as the rows see, where the cells come in blocks."""
    inner = np.concatenate([on.lo, on.hi[on.hi < on.k_len]])
    block = int(np.gcd.reduce(inner[inner > 0])) if inner.any() else 0
    if on.batch > 1 or block < 2 or (on.hi - on.lo).min() == on.k_len:
        return
    counts = np.ceil(on.of_row / block)
    for count in {int(counts.max())}:
        if count * block < on.k_len:
            yield from (RandomBlocks(block, count, seed) for seed in range(MOST_SEEDS))
