"""Some rows and keys of the grid, on which a mask is tried before it is proved on all of them."""

from collections.abc import Iterable

import numpy as np

from hitherto.lowering.recognise.region import Array
from hitherto.mask import Mask, Spans, evaluate, row

WHOLE = 1 << 12
"""Cells of a grid small enough to be looked at whole."""

MOST_ROWS, MOST_KEYS, EVENLY = 80, 320, 12


class Probe:
    """Rows and keys where something changes, those that once proved a guess wrong, and some more.

    Every array is bool (batch, rows, keys).
    """

    def __init__(self, target: tuple[Spans, ...], wrong: Iterable[tuple[int, int]] = ()) -> None:
        first = target[0]
        self.batch = len(target)
        rows, keys = {q for q, _ in wrong}, {k for _, k in wrong}
        if first.q_len * first.k_len <= WHOLE:
            self.q, self.k = np.arange(first.q_start, first.q_stop), np.arange(first.k_len)
        else:
            self.q = _rows(target, rows)
            self.k = _keys(target, self.q, keys)
        self.target = self.of(target)
        self._known: dict[Mask, Array] = {}

    def of(self, target: tuple[Spans, ...]) -> Array:
        """Read spans on these rows and keys."""
        seen = np.zeros((self.batch, self.q.size, self.k.size), bool)
        for b, spans in enumerate(target):
            for i, q in enumerate(self.q):
                for lo, hi in np.searchsorted(self.k, row(spans, int(q))).tolist():
                    seen[b, i, lo:hi] = True
        return seen

    def see(self, mask: Mask) -> Array:
        """Evaluate a mask on these rows and keys."""
        if mask not in self._known:
            cells = evaluate(mask, self.q, self.k)
            cells = cells if cells.ndim == 2 else cells[:, 0]
            self._known[mask] = np.broadcast_to(cells, self.target.shape)
        return self._known[mask]


def _rows(target: tuple[Spans, ...], wanted: set[int]) -> Array:
    first = target[0]
    turns = np.unique(np.concatenate([np.append(s.starts, s.stops - 1) for s in target]))
    return _some(turns, MOST_ROWS, first.q_start, first.q_stop, wanted)


def _keys(target: tuple[Spans, ...], rows: Array, wanted: set[int]) -> Array:
    ends = [row(spans, int(q)).ravel() for spans in target for q in rows]
    ends = np.unique(np.concatenate(ends)) if ends else np.zeros(0, np.int64)
    beside = np.unique(np.concatenate([ends - 1, ends]))
    return _some(beside, MOST_KEYS, 0, target[0].k_len, wanted)


def _some(values: Array, most: int, start: int, stop: int, wanted: set[int]) -> Array:
    """Return at most so many of the values, evenly, and a few from all over `[start, stop)`."""
    values = values[(start <= values) & (values < stop)]
    if values.size > most:
        values = values[np.linspace(0, values.size - 1, most).astype(int)]
    evenly = np.linspace(start, stop - 1, min(EVENLY, stop - start)).astype(np.int64)
    return np.unique(np.concatenate([values, evenly, np.array(sorted(wanted), np.int64)]))
