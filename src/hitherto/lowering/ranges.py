"""Spans written row by row: what arrays of cells, and per-row tables, are made from."""

from collections.abc import Iterator

import numpy as np

from hitherto.mask import Spans
from hitherto.mask.canonical import canonical
from hitherto.mask.spans import columns, ragged

Array = np.ndarray

STRIP = 1 << 22
"""Cells of a strip: small enough to stay in cache, large enough to waste no time between."""


def row_ranges(spans: Spans) -> tuple[Array, Array, Array]:
    """Return every key range of every row: (row from 0, first key, key after the last), int64.

    Ordered by row and key; the ranges of a row are disjoint and do not touch.
    Cost: O(rows * spans in a row).
    """
    spans = canonical(spans, keep_spans=True)
    run = np.repeat(np.arange(spans.starts.size), spans.stops - spans.starts)
    entry, row = ragged(spans.offsets, run)
    q = row + spans.q_start
    return row, spans.a[entry] + spans.s[entry] * q, spans.b[entry] + spans.t[entry] * q


def strips(spans: Spans) -> Iterator[tuple[int, Array]]:
    """Yield the cells as (first row, bool (rows, keys)), some rows at a time.

    Cost: O(queries * keys); a strip may be overwritten by the next.
    """
    row, lo, hi = row_ranges(spans)
    height = max(1, STRIP // (spans.k_len + 1))
    for first in range(0, spans.q_len, height):
        stop = min(first + height, spans.q_len)
        some = slice(*np.searchsorted(row, (first, stop)))
        edge = np.zeros((stop - first, spans.k_len + 1), np.int8)
        edge[row[some] - first, lo[some]] = 1
        edge[row[some] - first, hi[some]] = -1
        yield first, np.cumsum(edge, axis=1, dtype=np.int8, out=edge)[:, :-1].view(bool)


def dense(spans: Spans) -> Array:
    """Return the cells as bool (queries, keys), True = may attend."""
    grid = np.empty(spans.shape, bool)
    for first, strip in strips(spans):
        grid[first : first + len(strip)] = strip
    return grid


def shown_keys(spans: Spans) -> Array:
    """Return which keys any row sees: bool (keys,)."""
    _, lo, hi = row_ranges(spans)
    edge = np.bincount(lo, minlength=spans.k_len + 1) - np.bincount(hi, minlength=spans.k_len + 1)
    return np.cumsum(edge)[:-1] > 0


def only_keys(spans: Spans, kept: Array) -> Spans:
    """Return what is left of spans when only some keys, bool (keys,), may be seen."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]])))
    return spans & columns(*spans.grid, edges.reshape(-1, 2))
