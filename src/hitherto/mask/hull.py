"""Spans cut at given rows, and the first and last key that each stretch of rows touches."""

import numpy as np

from hitherto.mask.spans import Array, Spans, ragged, union


def pieces(spans: Spans, edges: Array) -> tuple[Array, Array, Array, Array]:
    """Cut the runs at `edges` (ordered rows, the grid's first and end included).

    Returns:
        (run, first row, row after the last, stretch) of each piece, ordered; stretch i is
        `[edges[i], edges[i + 1])`.
    """
    starts = union(spans.starts, edges[:-1])
    stops = np.append(starts[1:], spans.q_stop)[: starts.size]
    run = np.searchsorted(spans.starts, starts, "right") - 1
    return run, starts, stops, np.searchsorted(edges, starts, "right") - 1


def ahead_of(spans: Spans) -> tuple[int, int]:
    """Return (least, one more than the most) of `k - q` over the cells of spans."""
    run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    first, last, bits = spans.starts[run], spans.stops[run] - 1, spans.bits[run]
    lo = np.where(bits, spans.a * 64 - last, spans.a - (1 - spans.s) * last)
    hi = np.where(bits, spans.a * 64 + 64 - first, spans.b - (1 - spans.t) * first)
    return int(lo.min(initial=0)), int(hi.max(initial=0))


def hull(spans: Spans, edges: Array) -> Array:
    """Return (first key, key after the last) touched in each stretch of rows: (n, 2).

    (0, 0) where none is. Keys beyond the grid are clipped.
    """
    run, q0, q1, stretch = pieces(spans, edges)
    entry, piece = ragged(spans.offsets, run)
    bits = spans.bits[run][piece]
    lo = np.where(bits, spans.a[entry] * 64, spans.a[entry] + spans.s[entry] * q0[piece])
    hi = np.where(bits, spans.a[entry] * 64 + 64, spans.b[entry] + spans.t[entry] * (q1[piece] - 1))
    hulls = np.stack([np.full(edges.size - 1, spans.k_len), np.zeros(edges.size - 1, np.int64)], 1)
    np.minimum.at(hulls[:, 0], stretch[piece], np.maximum(lo, 0))
    np.maximum.at(hulls[:, 1], stretch[piece], np.minimum(hi, spans.k_len))
    hulls[hulls[:, 1] <= hulls[:, 0]] = 0
    return hulls
