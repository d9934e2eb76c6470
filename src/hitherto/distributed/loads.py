"""What stretches of query rows cost and need: exact cells, and the keys they see, from Spans."""

import numpy as np

from hitherto.mask import Spans
from hitherto.mask.hull import pieces
from hitherto.mask.spans import ragged
from hitherto.mask.words import edges as word_edges

Array = np.ndarray
Ranges = tuple[Array, Array, Array]
"""(group, lo, hi) of key ranges `[lo, hi)`; groups ascend, and inside one the ranges are ordered
and apart."""


def cells_of(spans: Spans, edges: Array) -> Array:
    """Count the visible cells of each stretch of rows, int64 (stretches,).

    Args:
        spans: a mask on a grid.
        edges: ordered rows, the grid's first and end included; stretch i is
            `[edges[i], edges[i + 1])`.
    Cost: O(runs + spans + stretches).
    """
    run, q0, q1, stretch = pieces(spans, edges)
    entry, piece = ragged(spans.offsets, run)
    rows = (q1 - q0)[piece]
    last = (q0 + q1 - 1)[piece]
    # One of rows and last is even; halved first, the sum of the rows is exact.
    sum_of_rows = np.where(rows % 2 == 0, rows // 2 * last, rows * (last // 2))
    wide = rows * (spans.b[entry] - spans.a[entry])
    wide += (spans.t[entry] - spans.s[entry]) * sum_of_rows
    if spans.bits.any():
        ones = rows * np.bitwise_count(spans.b[entry].view(np.uint64)).astype(np.int64)
        wide = np.where(spans.bits[run][piece], ones, wide)
    return _summed(wide, stretch[piece], edges.size - 1)


def needs_of(spans: Spans, edges: Array) -> Ranges:
    """Return the keys that any row of each stretch sees. Cost: as `cells_of`, and a sort."""
    run, q0, q1, stretch = pieces(spans, edges)
    entry, piece = ragged(spans.offsets, run)
    bits = spans.bits[run][piece]
    # Ends move by at most one key a row and no span is empty, so its rows cover one range.
    plain, at = entry[~bits], piece[~bits]
    lo = spans.a[plain] + spans.s[plain] * q0[at]
    hi = spans.b[plain] + spans.t[plain] * (q1[at] - 1)
    words = entry[bits]
    owner, first, stop = word_edges(piece[bits], spans.a[words], spans.b[words].view(np.uint64))
    groups = np.concatenate([stretch[at], stretch[owner]])
    return merged((groups, np.concatenate([lo, first]), np.concatenate([hi, stop])), spans.k_len)


def merged(ranges: Ranges, k_len: int) -> Ranges:
    """Join the ranges of each group that touch or overlap."""
    group, lo, hi = ranges
    wide = k_len + 1
    start, stop = group * wide + lo, group * wide + hi
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    stop = np.maximum.accumulate(stop) if stop.size else stop
    new = np.append(True, start[1:] > stop[:-1])[: start.size]
    last = np.append(new[1:], True)[: start.size]
    start, stop = start[new], stop[last]
    group = start // wide
    return group, start - group * wide, stop - group * wide


def overlap(one: Ranges, two: Ranges, groups: int, k_len: int) -> Array:
    """Count the keys that both have, by group: |a| + |b| - |a or b|. Both are merged."""
    joined = merged(tuple(np.concatenate(x) for x in zip(one, two, strict=True)), k_len)
    return lengths(one, groups) + lengths(two, groups) - lengths(joined, groups)


def lengths(ranges: Ranges, groups: int) -> Array:
    """Count the keys of each group of merged ranges, int64 (groups,)."""
    group, lo, hi = ranges
    return _summed(hi - lo, group, groups)


def readers(ranges: Ranges, cuts: Array) -> Array:
    """Sum, over the keys of each stretch `[cuts[i], cuts[i + 1])`, how many groups have the key."""
    _, lo, hi = ranges
    return np.diff(_below(np.sort(lo), cuts) - _below(np.sort(hi), cuts))


def _below(ends: Array, cuts: Array) -> Array:
    """Return the sum of `max(cut - end, 0)` over all ends, for each cut."""
    count = np.searchsorted(ends, cuts)
    total = np.append(0, np.cumsum(ends))
    return cuts * count - total[count]


def _summed(values: Array, group: Array, groups: int) -> Array:
    """Sum int64 by ascending or mixed group, exactly: bincount would add in float64."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, values)
    return total
