"""How many cells: all of them, as a share, or in some rows."""

from typing import Any

import numpy as np

from hitherto.mask.expression import Mask
from hitherto.mask.questions.answer import Bound, bound, each
from hitherto.mask.spans import Spans


def pairs(
    subject: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Count the visible cells. An int, or int64 (batch, heads) for a batched mask. O(runs)."""
    grid = bound(subject, q_len, k_len, q_start)
    return each(grid, lambda spans: _cells(spans, spans.q_start, spans.q_stop))


def density(
    subject: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Return the visible share of the grid, 0 to 1 (0 on an empty grid). O(runs)."""
    grid = bound(subject, q_len, k_len, q_start)
    return each(
        grid,
        lambda spans: (
            _cells(spans, spans.q_start, spans.q_stop) / max(spans.q_len * spans.k_len, 1)
        ),
    )


def work(
    subject: Mask | Bound, q0: int, q1: int, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Count the visible cells of the absolute rows `[q0, q1)`, for balancing. O(runs)."""
    grid = bound(subject, q_len, k_len, q_start)
    return each(grid, lambda spans: _cells(spans, q0, q1))


def _cells(spans: Spans, q0: int, q1: int) -> int:
    """Sum `b - a + (t - s) * q` over the rows and spans, and the bits of words."""
    run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    first, stop = np.maximum(spans.starts, q0), np.minimum(spans.stops, q1)
    rows = np.maximum(stop - first, 0)[run]
    ends = (first + stop - 1)[run]
    # One of rows and ends is even; halved first, the sum is exact modulo 2**64, and it fits.
    total_of_rows = np.where(rows % 2 == 0, rows // 2 * ends, rows * (ends // 2))
    wide = rows * (spans.b - spans.a) + (spans.t - spans.s) * total_of_rows
    set_bits = rows * np.bitwise_count(spans.b.view(np.uint64)).astype(np.int64)
    return int(np.where(spans.bits[run], set_bits, wide).sum())
