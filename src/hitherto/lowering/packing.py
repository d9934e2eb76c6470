"""Packed sequences: a mask as blocks along the diagonal, each causal or a window, or whole.

flash-attn, torch's varlen, xFormers and Transformer Engine all say this one family of masks: the
queries of a batch one after another, the keys one after another, both cut at the same number of
places, and one window for all pieces, counted from one of their corners:

    query i of a piece with n queries and m keys sees its key j  iff  -left <= j - i - d <= right
    d = m - n (bottom-right corner) or 0 (top-left corner)

A family of masks that is closed under intersection has a least member that holds a given mask, and
the mask is in the family iff it *is* that member. So nothing is searched for: the least member is
built and compared, and what differs is the reason to refuse.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from hitherto.lowering.grid import Grid, refuse, require_one_head
from hitherto.lowering.outer import outer, row_bounds
from hitherto.mask import Batch

Array = np.ndarray
Corner = Literal["bottom-right", "top-left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Pieces of packed sequences and their window."""

    q_stops: Array
    """Where each piece's queries stop, int64; they start where those before stop."""

    k_starts: Array
    """Where each piece's keys start."""

    k_stops: Array
    """Where they stop. Pieces come in order; keys between two belong to nobody."""

    left: int | None
    """Keys seen before the diagonal; None is no limit."""

    right: int | None
    """Keys seen after it; 0 is causal, None is no limit."""

    corner: Corner
    """Where the diagonal of a piece begins (top-left) or ends (bottom-right)."""

    @property
    def q_lens(self) -> Array:
        """Queries of each piece."""
        return np.diff(self.q_stops, prepend=0)

    @property
    def k_lens(self) -> Array:
        """Keys of each piece."""
        return self.k_stops - self.k_starts

    @property
    def piece(self) -> Array:
        """The piece of every packed query."""
        return np.repeat(np.arange(self.q_stops.size), self.q_lens)

    def diagonal(self) -> Array:
        """Return the key from which every packed query counts its window."""
        piece, first = self.piece, self.k_starts - (self.q_stops - self.q_lens)
        if self.corner == "bottom-right":
            first = first + self.k_lens - self.q_lens
        return np.arange(piece.size) + first[piece]

    def bounds(self) -> tuple[Array, Array]:
        """Return the first key of every packed query and the one after its last; lo >= hi: none."""
        piece, at = self.piece, self.diagonal()
        lo, hi = self.k_starts[piece], self.k_stops[piece]
        lo = lo if self.left is None else np.maximum(lo, at - self.left)
        return lo, hi if self.right is None else np.minimum(hi, at + self.right + 1)

    def contiguous(self, k_len: int) -> tuple[Array, Array]:
        """Return (cu_seqlens_q, cu_seqlens_k), int32, of pieces whose keys leave no gap.

        Keys that belong to nobody become pieces without queries.
        """
        before = np.append(0, self.k_stops[:-1])
        gap = self.k_starts > before
        q = np.insert(self.q_stops, np.flatnonzero(gap), (self.q_stops - self.q_lens)[gap])
        k = np.insert(self.k_stops, np.flatnonzero(gap), self.k_starts[gap])
        if (k[-1] if k.size else 0) < k_len:
            q, k = np.append(q, q[-1] if q.size else 0), np.append(k, k_len)
        return np.append(0, q).astype(np.int32), np.append(0, k).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Rows:
    """One range of keys for every query of a batch, packed: batch row b's keys follow b - 1's."""

    lo: Array
    hi: Array
    q_len: int
    k_len: int
    batch: int

    @classmethod
    def of(cls, target: str, grid: Grid) -> Self:
        """Read the ranges of a mask.

        Raises:
            Unsupported: heads that differ, or a row with a gap.
        """
        require_one_head(target, grid, "all heads share one mask")
        index, ranges = grid.bound.index, []
        for i, spans in enumerate(grid.bound.spans):
            filled = outer(spans)
            if filled != spans:
                each = (*grid.bound.spans[:i], filled, *grid.bound.spans[i + 1 :])
                cell = grid.first_difference(Batch(index, each))
                raise refuse(target, grid, cell, "a row is one range of keys, without a gap")
            ranges.append(row_bounds(filled))
        shift = np.repeat(np.arange(grid.batch) * grid.k_len, grid.q_len)
        lo, hi = (np.concatenate([ranges[i][side] for i in index[:, 0]]) for side in (0, 1))
        return cls(lo + shift, hi + shift, grid.q_len, grid.k_len, grid.batch)

    @property
    def seen(self) -> Array:
        """Which rows see any key."""
        return self.hi > self.lo


At = tuple[int, int]
"""A packed row and a key."""

Found = tuple[Packing | None, At]
"""An exact packing; or None, and the first cell that the least one says otherwise."""


def packing(target: str, grid: Grid, corner: Corner = "bottom-right") -> Packing:
    """Return the pieces and the window that say a mask: whole sequences where that is enough.

    Raises:
        Unsupported: when no packing with this corner is exact.
    Cost: O(batch * queries).
    """
    rows = Rows.of(target, grid)
    found, cell = whole(rows, corner)
    if found is None:
        found, cell = pieces(rows, corner)
    if found is None:
        raise no_packing(target, grid, rows, cell, corner)
    return found


def whole(rows: Rows, corner: Corner = "bottom-right") -> Found:
    """Take every batch row as one piece."""
    ends = np.arange(1, rows.batch + 1)
    return _least(rows, ends * rows.q_len, (ends - 1) * rows.k_len, ends * rows.k_len, corner)


def slots(rows: Rows, corner: Corner = "bottom-right") -> Found:
    """Take every batch row as one piece of the keys from the first that it sees to the last."""
    if not rows.q_len:
        return whole(rows, corner)
    lo, hi = (x.reshape(rows.batch, -1) for x in (rows.lo, rows.hi))
    first = np.arange(rows.batch) * rows.k_len
    start = np.where(hi > lo, lo, first[:, None] + rows.k_len).min(1)
    stop = np.where(hi > lo, hi, 0).max(1)
    none = stop <= start
    start, stop = np.where(none, first, start), np.where(none, first, stop)
    return _least(rows, np.arange(1, rows.batch + 1) * rows.q_len, start, stop, corner)


def pieces(rows: Rows, corner: Corner = "bottom-right") -> Found:
    """Cut as finely as can be: rows that share a key stay together."""
    seen, reached = rows.seen, np.maximum.accumulate(np.where(rows.seen, rows.hi, 0))
    new = np.ones(seen.size, bool)
    new[1:] = (rows.lo[1:] >= reached[:-1]) & seen[1:] | (seen[1:] != seen[:-1])
    first = np.flatnonzero(new)
    if not first.size:
        return _least(rows, first, first, first, corner)
    stops = np.maximum.reduceat(np.where(seen, rows.hi, reached), first)
    starts = np.minimum.reduceat(np.where(seen, rows.lo, reached), first)
    if (back := starts[1:] < stops[:-1]).any():
        row = int(first[1:][back][0])
        return None, (row, int(rows.lo[row]))
    return _least(rows, np.append(first[1:], seen.size), starts, stops, corner)


def no_packing(target: str, grid: Grid, rows: Rows, at: At, corner: Corner) -> Exception:
    """Return the refusal of a target that says packings only."""
    row, key = at
    b = row // max(rows.q_len, 1)
    key = min(max(key - b * rows.k_len, 0), rows.k_len - 1)
    cell = b, 0, grid.q_start + row % max(rows.q_len, 1), key
    return refuse(
        target, grid, cell,
        f"it says pieces along the diagonal under one window, counted from their {corner} corners",
    )  # fmt: skip


def _least(rows: Rows, q_stops: Array, k_starts: Array, k_stops: Array, corner: Corner) -> Found:
    """Give pieces their window: a side is unlimited where that is exact, else as near as can be."""
    cut = {"q_stops": q_stops, "k_starts": k_starts, "k_stops": k_stops, "corner": corner}
    at, seen = Packing(**cut, left=None, right=None).diagonal(), rows.seen
    left = max(int((at - rows.lo)[seen].max(initial=0)), 0)
    right = max(int((rows.hi - 1 - at)[seen].max(initial=0)), 0)
    cell = None
    for limits in ((None, None), (None, right), (left, None), (left, right)):
        found = Packing(**cut, left=limits[0], right=limits[1])
        cell = first_difference(rows, found)
        if cell is None:
            return found, (0, 0)
    return None, cell or (0, 0)


def first_difference(rows: Rows, found: Packing) -> At | None:
    """Return the first (packed row, key) that a packing, which holds the mask, says otherwise."""
    lo, hi = found.bounds()
    seen = rows.seen
    wrong = np.where(seen, (lo != rows.lo) | (hi != rows.hi), lo < hi)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    if seen[row] and lo[row] == rows.lo[row]:
        return row, int(min(hi[row], rows.hi[row]))
    return row, int(lo[row])
