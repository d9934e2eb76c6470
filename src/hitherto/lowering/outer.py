"""Each row's keys from the first it sees to the last: what targets with one range a row say."""

from dataclasses import replace

import numpy as np

from hitherto.mask import Spans
from hitherto.mask.canonical import canonical

Array = np.ndarray


def outer(spans: Spans) -> Spans:
    """Fill the gaps of every row. A mask is one range a row iff this changes nothing."""
    wide = canonical(spans, keep_spans=True)
    some = np.diff(wide.offsets) > 0
    first, last = wide.offsets[:-1][some], wide.offsets[1:][some] - 1
    return canonical(
        replace(wide, offsets=np.append(0, np.cumsum(some)), a=wide.a[first], s=wide.s[first],
                b=wide.b[last], t=wide.t[last])
    )  # fmt: skip


def row_bounds(filled: Spans) -> tuple[Array, Array]:
    """Return the first key of each row and the one after its last, int64 (queries,).

    (0, 0) for rows that see nothing. `filled` is what `outer` returns.
    """
    run = np.repeat(np.arange(filled.starts.size), filled.stops - filled.starts)
    some = np.diff(filled.offsets)[run] > 0
    entry, q = filled.offsets[run][some], np.arange(filled.q_start, filled.q_stop)[some]
    lo, hi = np.zeros(filled.q_len, np.int64), np.zeros(filled.q_len, np.int64)
    lo[some] = filled.a[entry] + filled.s[entry] * q
    hi[some] = filled.b[entry] + filled.t[entry] * q
    return lo, hi


def positions_before(lengths: Array, total: int) -> Array:
    """Return (batch, max(total, 1)) bools: which positions lie before each length."""
    return np.arange(max(total, 1)) < lengths[:, None]


def band_of(filled: Spans) -> tuple[int, int] | None:
    """Return the narrowest band that holds every cell: (most `q - k`, most `k - q`).

    Negative where all keys lie on one side; None where no cell is visible.
    """
    run = np.repeat(np.arange(filled.starts.size), np.diff(filled.offsets))
    if not run.size:
        return None
    first, last = filled.starts[run], filled.stops[run] - 1
    back = np.where(filled.s == 1, -filled.a, last - filled.a)
    ahead = np.where(filled.t == 1, filled.b, filled.b - first) - 1
    return int(back.max()), int(ahead.max())
