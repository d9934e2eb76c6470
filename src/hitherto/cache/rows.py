"""Rows of keys and values in one block of memory, under their absolute positions.

A `Rows` is never changed: every operation gives another one, which may share its memory. So a cache
replaces its rows by one assignment, and an interrupt leaves it either before or after a step.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hitherto.errors import ModelError, explain

Keys = Float[Tensor, "batch kv_heads keys head_dim"]
Values = Float[Tensor, "batch kv_heads keys v_dim"]
View = tuple[Keys, Values, Int64[Tensor, " keys"]]
"""Keys, values and their positions."""

SMALLEST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows `start .. stop - 1` of a larger block; the rest of the block is room to grow."""

    keys: Tensor
    """(batch, kv_heads, capacity, head_dim)."""
    values: Tensor
    """(batch, kv_heads, capacity, v_dim)."""
    positions: Tensor
    """(capacity,) int64 on the CPU, increasing inside start .. stop - 1."""
    start: int
    """First row held."""
    stop: int
    """One past the last row held."""

    @classmethod
    def like(cls, k: Tensor, v: Tensor, capacity: int) -> "Rows":
        """No rows yet, with room for `capacity` of the shape of k and v."""
        return cls(
            keys=k.new_empty(*k.shape[:2], capacity, k.shape[3]),
            values=v.new_empty(*v.shape[:2], capacity, v.shape[3]),
            positions=torch.empty(capacity, dtype=torch.int64),
            start=0,
            stop=0,
        )

    @property
    def count(self) -> int:
        """How many rows are held."""
        return self.stop - self.start

    @property
    def nbytes(self) -> int:
        """Bytes of the whole block, the room to grow included."""
        return self.keys.nbytes + self.values.nbytes + self.positions.nbytes

    def view(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values and positions of the rows held; they share the block's memory."""
        held = slice(self.start, self.stop)
        return self.keys[:, :, held], self.values[:, :, held], self.positions[held]

    def append(self, k: Tensor, v: Tensor, first: int, room: int | None = None) -> "Rows":
        """With the rows of k and v at positions first, first + 1, ...

        When the block is full, they move to one with `room` for more; by default it doubles.
        """
        count = k.shape[2]
        rows = self
        if self.stop + count > self.positions.numel():
            room = self.count - count if room is None else room
            rows = self.copy(capacity=max(self.count + count + max(room, 0), SMALLEST))
        added = slice(rows.stop, rows.stop + count)
        rows.keys[:, :, added] = k
        rows.values[:, :, added] = v
        rows.positions[added] = torch.arange(first, first + count)
        return replace(rows, stop=added.stop)

    def copy(self, capacity: int | None = None) -> "Rows":
        """The same rows in memory of their own, with room for `capacity` in all."""
        return self._gather([(self.start, self.stop)], capacity or max(self.count, SMALLEST))

    def before(self, position: int) -> "Rows":
        """Only the rows at positions < `position`."""
        at = int(np.searchsorted(self._held(), position))
        return replace(self, stop=self.start + at)

    def find(self, ranges: Int64[np.ndarray, "ranges 2"]) -> list[tuple[int, int]]:
        """The stretches [i, j) of the block whose positions lie in the ordered ranges."""
        edges = self.start + np.searchsorted(self._held(), ranges)
        stretches: list[tuple[int, int]] = []
        for i, j in edges.tolist():
            if stretches and stretches[-1][1] == i:
                stretches[-1] = (stretches[-1][0], j)
            elif i < j:
                stretches.append((i, j))
        return stretches

    def keep(self, ranges: Int64[np.ndarray, "ranges 2"]) -> "Rows":
        """Only the rows at positions in the ranges; frees memory when little is left of much.

        Cost: one copy of the kept rows when they do not lie together, else nothing.
        """
        stretches = self.find(ranges)
        kept = sum(j - i for i, j in stretches)
        if len(stretches) <= 1 and kept + 4 * spare(kept) >= self.positions.numel():
            start, stop = stretches[0] if stretches else (self.stop, self.stop)
            return replace(self, start=start, stop=stop)
        return self._gather(stretches, capacity=kept + spare(kept))

    def require_like(self, k: Tensor, v: Tensor) -> None:
        """Raise ModelError unless k and v can follow the rows held."""
        for name, came, block in (("k", k, self.keys), ("v", v, self.values)):
            shape = (*block.shape[:2], came.shape[2], block.shape[3])
            if came.shape != shape or came.dtype != block.dtype or came.device != block.device:
                raise ModelError(
                    explain(
                        f"append({name})",
                        f"must follow rows of (batch, kv_heads, n, dim) {shape}, {block.dtype}"
                        f" on {block.device}",
                        f"{tuple(came.shape)}, {came.dtype} on {came.device}",
                        "use one cache for each batch and dtype",
                    )
                )

    def _held(self) -> np.ndarray:
        return self.positions[self.start : self.stop].numpy()

    def _gather(self, stretches: list[tuple[int, int]], capacity: int) -> "Rows":
        rows = Rows.like(self.keys, self.values, capacity)
        at = 0
        for i, j in stretches:
            rows.keys[:, :, at : at + j - i] = self.keys[:, :, i:j]
            rows.values[:, :, at : at + j - i] = self.values[:, :, i:j]
            rows.positions[at : at + j - i] = self.positions[i:j]
            at += j - i
        return replace(rows, stop=at)


def spare(kept: int) -> int:
    """Room beside rows whose number stays the same: they move once in so many appends."""
    return kept // 8 + SMALLEST


def require_rows(k: Tensor, v: Tensor) -> None:
    """Raise ModelError unless k and v are rows for the same positions."""
    if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
        raise ModelError(
            explain(
                "append(k, v)",
                "must be (batch, kv_heads, n, head_dim) and (batch, kv_heads, n, v_dim)",
                f"{tuple(k.shape)} and {tuple(v.shape)}",
                "split the heads before caching",
            )
        )


def require_length(length: int, longest: int) -> None:
    """Raise ModelError unless 0 <= length <= longest."""
    if not 0 <= length <= longest:
        raise ModelError(
            explain(
                "truncate(length)",
                f"must be from 0 to the {longest} positions seen",
                length,
                "truncate goes back only",
            )
        )


def require_filled(rows: Rows | None) -> Rows:
    """The rows, or ModelError when there never were any."""
    if rows is None:
        raise ModelError(
            explain("view()", "needs at least one append", "an empty cache", "append k and v first")
        )
    return rows
