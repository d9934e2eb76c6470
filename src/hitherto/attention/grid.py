"""Where a mask is asked: query rows by key slots, each at an absolute position."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hitherto.mask import Batch, Mask, Spans, bind_batch, evaluate

Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Queries at `q_start ..` by the keys that are stored."""

    q_start: int
    """Absolute position of the first query."""

    q_len: int
    """Number of queries."""

    k_len: int
    """Number of keys stored."""

    kept: tuple[tuple[int, int], ...] | None = None
    """Position ranges `[start, stop)` of the keys, for a cache that forgot some; None is all."""

    @property
    def q_pos(self) -> Int[Array, " queries"]:
        """Position of every query."""
        return np.arange(self.q_start, self.q_start + self.q_len)

    @property
    def k_pos(self) -> Int[Array, " keys"]:
        """Position of every key."""
        if self.kept is None:
            return np.arange(self.k_len)
        ranges = [np.arange(start, stop) for start, stop in self.kept]
        return np.concatenate([np.empty(0, np.int64), *ranges])


def ranges_of(positions: Int[Array, " keys"]) -> tuple[tuple[int, int], ...]:
    """Join increasing positions into ranges `[start, stop)`."""
    if not positions.size:
        return ()
    cut = np.flatnonzero(np.diff(positions) != 1) + 1
    first, last = np.append(0, cut), np.append(cut, positions.size) - 1
    return tuple(zip(positions[first].tolist(), (positions[last] + 1).tolist(), strict=True))


@lru_cache(maxsize=64)
def layout(mask: Mask, grid: Grid) -> Batch:
    """Bind a mask to the keys that are stored, one Spans for each distinct batch row and head."""
    if grid.kept is None:
        return bind_batch(mask, grid.q_len, grid.k_len, grid.q_start)
    stop = grid.kept[-1][1] if grid.kept else 0
    batch = bind_batch(mask, grid.q_len, stop, grid.q_start)
    return Batch(batch.index, tuple(spans.compact(grid.kept) for spans in batch.spans))


@lru_cache(maxsize=8)
def visible(mask: Mask, grid: Grid) -> Bool[Tensor, "batch heads queries keys"]:
    """Evaluate the mask on every cell; the batch and head axes are 1 where it has none.

    Cost: O(queries * keys) time and memory.
    """
    cells = evaluate(mask, grid.q_pos, grid.k_pos)
    return torch.from_numpy(cells.copy())[(None,) * (4 - cells.ndim)]


SMALL = 1 << 16
"""Grids of at most this many cells are looked at cell by cell: that costs less than binding."""

Outline = Literal["everything", "causal", "other"]


@lru_cache(maxsize=256)
def outline(mask: Mask, grid: Grid) -> Outline:
    """Say whether the grid is one that kernels know by name.

    "causal" is `key slot <= query row` from the first row on: what kernels call upper-left.
    """
    if grid.q_len * grid.k_len > SMALL:
        spans = layout(mask, grid).spans
        return outline_of(spans[0]) if len(spans) == 1 else "other"
    cells = visible(mask, grid)
    if cells.all():
        return "everything"
    return "causal" if (cells == torch.ones_like(cells).tril()).all() else "other"


def outline_of(spans: Spans) -> Outline:
    """Read the same from Spans."""
    if spans.starts.size == spans.a.size == 1 and not spans.bits[0]:
        (a,), (s,), (b,), (t,) = spans.a, spans.s, spans.b, spans.t
        if (a, s, b, t) == (0, 0, spans.k_len, 0):
            return "everything"
        if (a, s, b, t) == (0, 0, 1, 1) and spans.q_start == 0:
            return "causal"
    return "other"
