"""A cache spread over ranks: each keeps some of the positions, all together keep what one would."""

import numpy as np

from hitherto.cache.rows import (
    Keys,
    Rows,
    Values,
    View,
    require_filled,
    require_length,
    require_rows,
)
from hitherto.distributed import loads
from hitherto.errors import ModelError, explain
from hitherto.mask import Mask, live_keys

BLOCK = 64
"""Positions side by side on one rank; the next block is the next rank's."""


class Sharded:
    """One rank's part of the keys and values of one layer.

    Every rank appends the same positions and keeps its own: position p belongs to rank
    `p // BLOCK % ranks`. With a mask, what no later query may see is forgotten, as in `Rolling`.
    """

    def __init__(self, rank: int, ranks: int, mask: Mask | None = None) -> None:
        self.rank, self.ranks, self.mask = rank, ranks, mask
        self._rows: Rows | None = None
        self._length = self._trimmed = 0

    @property
    def length(self) -> int:
        """Positions seen so far, by all ranks; the next append starts here."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of memory that this rank holds, the room to grow included."""
        return self._rows.nbytes if self._rows else 0

    def append(self, k: Keys, v: Values) -> None:
        """Forget what may be, then add those of the next positions that this rank keeps.

        Raises:
            ModelError: when shape, dtype or device is not that of the rows before.
        """
        require_rows(k, v)
        self.trim()
        rows = self._rows or Rows.like(k, v, capacity=0)
        rows.require_like(k, v)
        for start, stop in self._own(self._length, self._length + k.shape[2]):
            part = slice(start - self._length, stop - self._length)
            rows = rows.append(k[:, :, part].detach(), v[:, :, part].detach(), first=start)
        self._rows = rows
        self._length += k.shape[2]

    def view(self) -> View:
        """Keys, values and positions that this rank holds; there may be none.

        Raises:
            ModelError: when nothing was ever appended, so that no shape is known.
        """
        return require_filled(self._rows).view()

    def trim(self) -> None:
        """Forget now what no query at `length` or later may see."""
        if self._rows and self.mask is not None:
            self._rows = self._rows.keep(live_keys(self.mask, self._length))
            self._trimmed = self._length

    def truncate(self, length: int) -> None:
        """Forget positions >= length.

        Raises:
            ModelError: when length is negative, beyond what was seen, or so far back that keys a
                query there may see are gone.
        """
        require_length(length, self._length)
        self._require_kept(length)
        if self._rows:
            self._rows = self._rows.before(length)
        self._length = length

    def fork(self) -> "Sharded":
        """A copy that goes its own way. Cost: one copy of the rows."""
        other = Sharded(self.rank, self.ranks, self.mask)
        other._rows = self._rows.copy() if self._rows else None
        other._length, other._trimmed = self._length, self._trimmed
        return other

    def _own(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges of `[start, stop)` that this rank keeps."""
        blocks = np.arange(start // BLOCK, -(-stop // BLOCK))
        own = blocks[blocks % self.ranks == self.rank] * BLOCK
        edges = np.clip(np.stack([own, own + BLOCK], 1), start, stop)
        return [(int(i), int(j)) for i, j in edges if i < j]

    def _require_kept(self, length: int) -> None:
        """Raise, on every rank alike, unless what a query at `length` may see is held by any."""
        if self.mask is None or length >= self._length:
            return
        kept = _ranges(live_keys(self.mask, self._trimmed))
        needed = _ranges(np.minimum(live_keys(self.mask, length), self._trimmed))
        missing = loads.lengths(needed, 1) - loads.overlap(needed, kept, 1, self._length)
        if missing[0]:
            raise ModelError(
                explain("truncate(length)", f"must not go back to where {self.mask} needs keys "
                        "already forgotten", length, "fork() the cache before a draft")
            )  # fmt: skip


def _ranges(ranges: np.ndarray) -> loads.Ranges:
    """Return ranges (n, 2) as those of one group."""
    lo, hi = ranges[ranges[:, 0] < ranges[:, 1]].T
    return np.zeros_like(lo), lo, hi
