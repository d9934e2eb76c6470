"""Which keys a cache must keep: those that some query to come may see."""

from functools import lru_cache

import numpy as np

from hitherto.mask.bind import bind_batch
from hitherto.mask.canonical import canonical
from hitherto.mask.expression import Mask, require_int, require_mask
from hitherto.mask.questions.reach import bounds, reach
from hitherto.mask.questions.rows import joined
from hitherto.mask.spans import Array, Spans

FARTHEST_AHEAD = 1 << 24
"""Queries looked at before every key is said to be live."""


def live_keys(mask: Mask, q: int) -> Array:
    """Return the keys before `q` that any query at or after `q` may see.

    However long the sequence grows. Never too few; exact but for `Predicate` (may see anything),
    `RandomBlocks` (may draw any earlier block) and masks that repeat only after millions of
    positions. A batched or per-head mask keeps what any of its rows or heads may see.

    Args:
        mask: any mask. Where it carries data, these end the sequence.
        q: a position >= 0.
    Returns:
        ordered, disjoint ranges [start, stop), read-only int64 (n, 2).
    """
    require_mask("mask", mask)
    require_int("q", q, 0, "pass the next position")
    return _live_keys(mask, int(q))


@lru_cache(maxsize=1024)
def _live_keys(mask: Mask, q: int) -> Array:
    outer = bounds(mask)[1]
    ends = reach(outer)
    ahead = max(ends.corner - q, ends.span) + ends.period + 1
    if ends.q_data is not None:
        ahead = max(ends.q_data - q, 0)
    if ahead > FARTHEST_AHEAD:
        live = np.array([[0, q]] if q else [], np.int64).reshape(-1, 2)
    else:
        live = _touched(bind_batch(outer, ahead, q, q).spans)
    live.flags.writeable = False
    return live


def _touched(grids: tuple[Spans, ...]) -> Array:
    """Return the keys that any row of any grid sees."""
    first, stop = [], []
    for grid in grids:
        spans = canonical(grid, keep_spans=True)
        run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
        first.append(spans.a + spans.s * spans.starts[run])
        stop.append(spans.b + spans.t * (spans.stops[run] - 1))
    return joined(np.concatenate(first), np.concatenate(stop))
