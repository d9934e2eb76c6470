"""How many pairs are visible in each cell of a coarse grid, counted from Spans in closed form."""

import numpy as np

from hitherto.mask import Spans

_BUDGET = 1 << 20
"""Entries x edges worked on at once: bounds memory to some tens of MiB."""


def counts(spans: Spans, q_edges: np.ndarray, k_edges: np.ndarray) -> np.ndarray:
    """Count the visible pairs in each cell of a grid; exact for any size.

    Cell (i, j) holds queries `q_edges[i] <= q < q_edges[i+1]`, and keys cut in the same way.

    Args:
        spans: a bound mask.
        q_edges: increasing absolute rows inside the bound grid.
        k_edges: increasing keys inside the bound grid.

    Returns:
        int64 (len(q_edges) - 1, len(k_edges) - 1).
    Cost: O((runs + rows of the picture) x columns of the picture).
    """
    below = np.zeros((len(q_edges) - 1, len(k_edges)), dtype=np.int64)
    first, last, run = _pieces(spans, q_edges)
    band = np.searchsorted(q_edges, first, side="right") - 1
    size = spans.offsets[run + 1] - spans.offsets[run]
    piece = np.repeat(np.arange(len(run)), size)
    entry = np.arange(len(piece)) - np.repeat(np.cumsum(size) - size, size)
    entry += np.repeat(spans.offsets[run], size)
    step = max(1, _BUDGET // len(k_edges))
    for at in range(0, len(piece), step):
        p, e = piece[at : at + step], entry[at : at + step]
        rows = np.stack([first[p], last[p]])
        words = spans.bits[run[p]]
        for chosen, count in ((~words, _in_spans), (words, _in_words)):
            part = count(spans, e[chosen], rows[:, chosen], k_edges)
            np.add.at(below, band[p[chosen]], part)
    return np.diff(below, axis=1)


def _pieces(spans: Spans, q_edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut the runs at the bands of the picture: first row, end row and run of each piece."""
    inside = (spans.starts > q_edges[0]) & (spans.starts < q_edges[-1])
    cuts = np.union1d(q_edges, spans.starts[inside])
    return cuts[:-1], cuts[1:], np.searchsorted(spans.starts, cuts[:-1], side="right") - 1


def _in_spans(spans: Spans, entry: np.ndarray, rows: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Visible pairs of each entry with a key below each edge, for entries that are spans."""
    start = _sum_of_minima(spans.a[entry], spans.s[entry], rows, edges)
    return _sum_of_minima(spans.b[entry], spans.t[entry], rows, edges) - start


def _sum_of_minima(
    base: np.ndarray, slope: np.ndarray, rows: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    """Sum of `min(base + slope*q, edge)` over the rows q, for each entry and edge."""
    base, slope, first, last = (x[:, None] for x in (base, slope, *rows))
    height = last - first
    flat = height * np.minimum(base, edges)
    rising = np.clip(edges - base - first, 0, height)
    ramp = rising * (base + first) + rising * (rising - 1) // 2 + (height - rising) * edges
    return np.where(slope == 0, flat, ramp)


def _in_words(spans: Spans, entry: np.ndarray, rows: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Visible pairs of each entry with a key below each edge, for entries that are 64-key words."""
    bits = np.clip(edges - 64 * spans.a[entry, None], 0, 64).astype(np.uint64)
    keep = np.where(
        bits == 64, ~np.uint64(0), (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1)
    )
    seen = np.bitwise_count(spans.b[entry, None].view(np.uint64) & keep).astype(np.int64)
    return seen * (rows[1] - rows[0])[:, None]
