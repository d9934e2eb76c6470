"""Who owns which positions: query rows cut into stretches, and each stretch given to a rank."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hitherto.distributed.loads import Ranges

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Dealing:
    """Stretches of query rows and their ranks. Keys live with the rank that owns their position.

    A key whose position is no query's (those of a longer context) belongs to the rank that an even
    cut of the keys before the queries, or after them, gives it.
    """

    ranks: int
    cuts: Array
    """First row of each stretch, and the end: int64 (stretches + 1,)."""
    owner: Array
    """Rank of each stretch, int64; neighbours differ."""
    k_len: int

    @cached_property
    def tokens(self) -> Array:
        """Count the query rows of each rank."""
        return np.bincount(self.owner, np.diff(self.cuts), self.ranks).astype(np.int64)

    def queries(self, rank: int) -> Array:
        """Return the stretches of rows `[start, stop)` that a rank owns, ordered: int64 (n, 2)."""
        own = np.flatnonzero(self.owner == rank)
        return np.stack([self.cuts[own], self.cuts[own + 1]], 1)

    @cached_property
    def key_stretches(self) -> tuple[Array, Array]:
        """Return (cuts, owner) of the keys, as `cuts` and `owner` are of the rows."""
        first, stop = np.clip([self.cuts[0], self.cuts[-1]], 0, self.k_len)
        inside = np.unique(np.clip(self.cuts, first, stop))
        row = np.searchsorted(self.cuts, inside[:-1], "right") - 1
        before, after = (_even(*ends, self.ranks) for ends in ((0, first), (stop, self.k_len)))
        cuts = np.concatenate([before[:-1], inside, after[1:]])
        everyone = np.arange(self.ranks)
        owners = [everyone[: before.size - 1], self.owner[row], everyone[: after.size - 1]]
        return cuts, np.concatenate(owners)

    @cached_property
    def keys(self) -> Ranges:
        """Return the key ranges of every rank, (rank, lo, hi)."""
        cuts, owner = self.key_stretches
        order = np.argsort(owner, kind="stable")
        return owner[order], cuts[:-1][order], cuts[1:][order]


def joined(ranks: int, edges: Array, owner: Array, k_len: int) -> Dealing:
    """Join neighbouring stretches of one rank."""
    filled = edges[1:] > edges[:-1]
    starts, owner = edges[:-1][filled], owner[filled]
    new = np.append(True, owner[1:] != owner[:-1])[: owner.size]
    cuts = np.append(starts[new], edges[-1])
    return Dealing(ranks, cuts, owner[new].astype(np.int64), k_len)


def contiguous(ranks: int, q_start: int, q_len: int, k_len: int) -> Dealing:
    """Cut the rows into one stretch a rank, all of one length: what ring attention does."""
    return joined(ranks, _every(q_start, q_len, ranks), np.arange(ranks), k_len)


def zigzag(ranks: int, q_start: int, q_len: int, k_len: int) -> Dealing:
    """Cut the rows into two stretches a rank; rank r owns the r-th from either end."""
    there = np.arange(ranks)
    owner = np.concatenate([there, there[::-1]])
    return joined(ranks, _every(q_start, q_len, 2 * ranks), owner, k_len)


def _every(start: int, length: int, parts: int) -> Array:
    return start + np.arange(parts + 1, dtype=np.int64) * length // parts


def _even(start: int, stop: int, parts: int) -> Array:
    """Cut `[start, stop)` evenly; fewer parts than asked where there are fewer positions."""
    return _every(int(start), int(stop - start), min(parts, int(stop - start)) or 1)[
        : 1 + max(min(parts, int(stop - start)), 0)
    ]
