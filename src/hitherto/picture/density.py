"""How many pairs are visible in each cell of a coarse grid, counted from Spans in closed form."""

from collections.abc import Callable

import numpy as np

from hitherto.mask import Spans
from hitherto.mask.spans import ragged

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
    Cost: O(runs + rows and columns of the picture that an edge of a span crosses).
    """
    below = np.zeros((len(q_edges) - 1, len(k_edges)), dtype=np.int64)
    passed = np.zeros((len(q_edges) - 1, len(k_edges) + 1), dtype=np.int64)
    first, last, run = _pieces(spans, q_edges)
    band = np.searchsorted(q_edges, first, side="right") - 1
    entry, piece = ragged(spans.offsets, run)
    step = max(1, _BUDGET // len(k_edges))
    for at in range(0, len(piece), step):
        p, e = piece[at : at + step], entry[at : at + step]
        words = spans.bits[run[p]]
        for chosen, count in ((~words, _in_spans), (words, _in_words)):
            rows = np.stack([first[p[chosen]], last[p[chosen]]])
            _add(spans, e[chosen], rows, band[p[chosen]], k_edges, count, below, passed)
    return np.diff(below + np.cumsum(passed[:, :-1], axis=1), axis=1)


def _add(
    spans: Spans, entry: np.ndarray, rows: np.ndarray, band: np.ndarray, k_edges: np.ndarray,
    count: Callable, below: np.ndarray, passed: np.ndarray,
) -> None:  # fmt: skip
    """Add each entry's pairs with a key below an edge, at the edges it crosses and those after."""
    if not entry.size:
        return
    lo, hi = _reach(spans, entry, rows)
    j0 = np.searchsorted(k_edges, lo, side="right")
    j1 = np.minimum(np.searchsorted(k_edges, hi, side="left"), len(k_edges) - 1)
    j0 = np.minimum(j0, j1)
    crossed = j1 - j0 + 1
    who = np.repeat(np.arange(len(entry)), crossed)
    edge = np.arange(len(who)) - np.repeat(np.cumsum(crossed) - crossed - j0, crossed)
    found = count(spans, entry[who], rows[:, who], k_edges[edge])
    np.add.at(below, (band[who], edge), found)
    np.add.at(passed, (band, j1 + 1), found[np.cumsum(crossed) - 1])


def _reach(spans: Spans, entry: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first key of each entry and the one after its last, over its rows."""
    a, s, b, t = (x[entry] for x in (spans.a, spans.s, spans.b, spans.t))
    words = spans.bits[np.searchsorted(spans.offsets, entry, side="right") - 1]
    lo = np.where(words, 64 * a, a + s * rows[0])
    return lo, np.where(words, 64 * a + 64, b + t * (rows[1] - 1))


def _pieces(spans: Spans, q_edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut the runs at the bands of the picture: first row, end row and run of each piece."""
    inside = (spans.starts > q_edges[0]) & (spans.starts < q_edges[-1])
    cuts = np.union1d(q_edges, spans.starts[inside])
    return cuts[:-1], cuts[1:], np.searchsorted(spans.starts, cuts[:-1], side="right") - 1


def _in_spans(spans: Spans, entry: np.ndarray, rows: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Visible pairs of each entry with a key below its edge, for entries that are spans."""
    start = _sum_of_minima(spans.a[entry], spans.s[entry], rows, edge)
    return _sum_of_minima(spans.b[entry], spans.t[entry], rows, edge) - start


def _sum_of_minima(
    base: np.ndarray, slope: np.ndarray, rows: np.ndarray, edge: np.ndarray
) -> np.ndarray:
    """Sum of `min(base + slope*q, edge)` over the rows q."""
    first, last = rows
    height = last - first
    flat = height * np.minimum(base, edge)
    rising = np.clip(edge - base - first, 0, height)
    ramp = rising * (base + first) + rising * (rising - 1) // 2 + (height - rising) * edge
    return np.where(slope == 0, flat, ramp)


def _in_words(spans: Spans, entry: np.ndarray, rows: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Visible pairs of each entry with a key below its edge, for entries that are 64-key words."""
    bits = np.clip(edge - 64 * spans.a[entry], 0, 64).astype(np.uint64)
    keep = np.where(
        bits == 64, ~np.uint64(0), (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1)
    )
    seen = np.bitwise_count(spans.b[entry].view(np.uint64) & keep).astype(np.int64)
    return seen * (rows[1] - rows[0])
