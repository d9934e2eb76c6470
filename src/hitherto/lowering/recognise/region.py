"""A set of cells, measured: what its rows, keys, diagonals and edges say about its shape."""

from functools import cached_property

import numpy as np

from hitherto.lowering.ranges import row_ranges
from hitherto.mask import Spans

Array = np.ndarray


class Region:
    """The same grid once for each batch row, as one list of spans of single rows.

    Entry i is the keys `[lo[i], hi[i])` of query `q[i]` in batch row `b[i]`. As many cells as
    `slack` may be chance: rows, keys, diagonals and cuts with no more count as without any.
    """

    def __init__(self, spans: tuple[Spans, ...], slack: int = 0) -> None:
        self.slack = slack
        self.q_start, self.q_len, self.k_len = spans[0].grid
        self.q_stop = self.q_start + self.q_len
        self.batch = len(spans)
        parts = [row_ranges(one) for one in spans]
        self.b = np.repeat(np.arange(self.batch), [q.size for q, _, _ in parts])
        self.q, self.lo, self.hi = (np.concatenate(x) for x in zip(*parts, strict=True))
        self.q += self.q_start

    def __bool__(self) -> bool:
        return self.q.size > 0

    @property
    def positions(self) -> int:
        """Positions that queries or keys of the grid have, from 0."""
        return max(self.q_stop, self.k_len)

    @cached_property
    def ahead(self) -> tuple[int, int]:
        """Least and most of `k - q`."""
        at = np.flatnonzero(self.of_diagonal > self.slack)
        at = at if at.size else np.flatnonzero(self.of_diagonal)
        return int(at[0]) + 1 - self.q_stop, int(at[-1]) + 1 - self.q_stop

    @property
    def rows(self) -> Array:
        """Which queries see something: bool (batch, q_len)."""
        return self.of_row > self.slack

    @property
    def keys(self) -> Array:
        """Which keys are seen: bool (batch, k_len)."""
        return self.of_key > self.slack

    @property
    def diagonals(self) -> Array:
        """Which `k - q` are seen, the first being `1 - q_stop`."""
        return self.of_diagonal > self.slack

    @property
    def cuts(self) -> Array:
        """Positions p with no cell between those below p and the others: (batch, positions)."""
        return self.across[:, :-1] <= self.slack

    @cached_property
    def of_row(self) -> Array:
        """Visible keys of each query: (batch, q_len)."""
        row = self.b * self.q_len + self.q - self.q_start
        counts = np.bincount(row, self.hi - self.lo, self.batch * self.q_len)
        return counts.astype(np.int64).reshape(self.batch, self.q_len)

    @cached_property
    def of_key(self) -> Array:
        """Queries that see each key: (batch, k_len)."""
        return self._covered(self.b, self.lo, self.hi, self.k_len)

    @cached_property
    def of_diagonal(self) -> Array:
        """Cells at each `k - q`, the first being `1 - q_stop`."""
        move = self.q_stop - 1 - self.q
        count = self.q_stop + self.k_len
        return self._covered(np.zeros_like(self.b), self.lo + move, self.hi + move, count)[0]

    @cached_property
    def across(self) -> Array:
        """Cells whose query and key lie on either side of a cut before each position.

        Shape (batch, positions + 1).
        """
        width = self.positions + 1
        before, after = np.minimum(self.hi, self.q), np.maximum(self.lo, self.q + 1)
        back, ahead = np.maximum(before - self.lo, 0), np.maximum(self.hi - after, 0)
        # From one cut to the next, a row gains a key it saw behind, or loses one it saw ahead.
        gained = self._covered(self.b, self.lo + 1, self.lo + 1 + back, width)
        lost = self._covered(self.b, after + 1, after + 1 + ahead, width)
        turned = np.bincount(self.b * width + self.q + 1, ahead - back, self.batch * width)
        return np.cumsum(gained - lost + turned.reshape(self.batch, width).astype(np.int64), 1)

    @cached_property
    def first(self) -> Array:
        """First visible key of each query, `k_len` where there is none: (batch, q_len)."""
        found = np.full((self.batch, self.q_len), self.k_len)
        np.minimum.at(found, (self.b, self.q - self.q_start), self.lo)
        return found

    @cached_property
    def last(self) -> Array:
        """One past the last visible key of each query, 0 where there is none: (batch, q_len)."""
        found = np.zeros((self.batch, self.q_len), np.int64)
        np.maximum.at(found, (self.b, self.q - self.q_start), self.hi)
        return found

    @cached_property
    def hulls(self) -> tuple[Array, Array]:
        """Queries whose keys, first to last, hold each key, and both it and the one before.

        Two arrays (batch, k_len).
        """
        b, row = np.nonzero(self.rows)
        lo, hi = self.first[b, row], self.last[b, row]
        return self._covered(b, lo, hi, self.k_len), self._covered(b, lo + 1, hi, self.k_len)

    def _covered(self, group: Array, lo: Array, hi: Array, count: int) -> Array:
        """Count the ranges `[lo, hi)` over each position of each group: (batch, count)."""
        width, cells = count + 1, self.batch * (count + 1)
        steps = np.bincount(group * width + lo, minlength=cells) - np.bincount(
            group * width + np.maximum(hi, lo), minlength=cells
        )
        return np.cumsum(steps.reshape(self.batch, width), 1)[:, :count]


def entries(spans: Spans) -> int:
    """Return how many spans the rows have in all, at most, without writing them down."""
    lengths, counts = spans.stops - spans.starts, np.diff(spans.offsets)
    run = np.repeat(np.arange(spans.starts.size), counts)
    ones = np.bitwise_count(spans.b.view(np.uint64)).astype(np.int64)
    return int(np.where(spans.bits[run], ones, 1) @ lengths[run])


def common(values: Array, most: int = 4) -> list[int]:
    """Return the values that occur most, the most frequent first."""
    found, counts = np.unique(values, return_counts=True)
    return [int(found[i]) for i in np.argsort(-counts, kind="stable")[:most]]
