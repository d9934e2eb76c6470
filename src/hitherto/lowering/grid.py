"""What a target is given: a mask bound to a grid; and how a target says that it cannot."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from hitherto.errors import MaskError, Unsupported, explain
from hitherto.mask import Batch, Mask, Spans, bind_batch, difference

MOST_CELLS = 1 << 34
"""Cells of the largest array that is built cell by cell."""


class Exact(Exception):
    """A target can say a mask: raised instead of building an array of every cell."""


Cell = tuple[int, int, int, int]
"""(batch, head, query, key): the query and key are absolute positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A mask, and its Spans on a grid of queries and keys."""

    mask: Mask
    """What may attend to what."""

    bound: Batch
    """Its Spans: `bound[b, h]`, each distinct one once."""

    q_len: int
    """Number of queries."""

    k_len: int
    """Number of keys, at positions `0 ..`."""

    q_start: int
    """Position of the first query."""

    asking: bool = False
    """Whether nothing is to be built: `require_room` then raises Exact once all checks are past."""

    @classmethod
    def of(cls, mask: Mask, q_len: int, k_len: int, q_start: int | None = None) -> Self:
        """Bind a mask to a grid; the queries are the last of the keys unless `q_start` is given."""
        bound = bind_batch(mask, q_len, k_len, q_start)
        start = k_len - q_len if q_start is None else q_start
        return cls(mask=mask, bound=bound, q_len=q_len, k_len=k_len, q_start=start)

    @property
    def batch(self) -> int:
        """Size of the batch axis; 1 where the mask has none."""
        return self.bound.index.shape[0]

    @property
    def heads(self) -> int:
        """Size of the head axis; 1 where the mask has none."""
        return self.bound.index.shape[1]

    @property
    def offset(self) -> int:
        """Position of the last key minus that of the last query: 0 when queries come last.

        Kernels that align the bottom-right corners take query row i as position
        `i + k_len - q_len`, which is `q_start + i + offset`.
        """
        return self.k_len - self.q_len - self.q_start

    def first_difference(self, other: Mask | Spans | Batch) -> Cell | None:
        """Return the first (batch, head, query, key) that `other` shows otherwise."""
        if isinstance(other, Mask):
            other = bind_batch(other, self.q_len, self.k_len, self.q_start)
        theirs = other if isinstance(other, Batch) else Batch(np.zeros((1, 1), int), (other,))
        known: dict[tuple[int, int], tuple[int, int] | None] = {}
        mine, his = np.broadcast_arrays(self.bound.index, theirs.index)
        for at in np.ndindex(mine.shape):
            pair = int(mine[at]), int(his[at])
            if pair not in known:
                known[pair] = difference(self.bound.spans[pair[0]], theirs.spans[pair[1]])
            if (cell := known[pair]) is not None:
                return at[0], at[1], *cell
        return None

    def shows(self, cell: Cell) -> bool:
        """Tell whether the mask shows a cell."""
        b, h, q, k = cell
        b, h = b if self.batch > 1 else 0, h if self.heads > 1 else 0
        one = Spans.rows(self.bound[b, h], q, q + 1)
        return bool(one.dense()[0, k])

    def require_room(self, target: str, cells: int | None = None) -> None:
        """Raise before an array of every cell grows past memory."""
        cells = self.batch * self.heads * self.q_len * self.k_len if cells is None else cells
        if cells > MOST_CELLS:
            raise MaskError(
                explain(f"lower(to={target!r})", f"builds at most {MOST_CELLS:,} cells",
                        f"{cells:,}", "use a target that keeps runs, e.g. to='flex'")
            )  # fmt: skip
        if self.asking:
            raise Exact


def refuse(target: str, grid: Grid, cell: Cell | None, why: str, can: str = "") -> Unsupported:
    """Return the error of a target that cannot say a mask; the caller raises it.

    Args:
        target: its name.
        grid: what it was given.
        cell: the first (batch, head, query, key) that it cannot express; None when the reason is
            no single cell.
        why: what the target would do there, e.g. "a window is one band for every row".
        can: targets that can; targets for any mask unless given.
    """
    text = str(grid.mask)
    if cell is not None:
        seen = "visible" if grid.shows(cell) else "hidden"
        axes = [f"batch {cell[0]}"] * (grid.batch > 1) + [f"head {cell[1]}"] * (grid.heads > 1)
        text = ", ".join([f"query {cell[2]}", f"key {cell[3]}", *axes]) + f" {seen} in {text}"
    fix = f"use {can}" if can else "lower to 'flex', 'dense' or 'additive', which take any mask"
    return Unsupported(
        explain(f"lower(to={target!r})", f"cannot be exact: {why}", text,
                f"{fix}; targets(mask, q_len, k_len) lists what is exact")
    )  # fmt: skip


def require_one_head(target: str, grid: Grid, why: str, can: str = "") -> None:
    """Raise unless all heads of each batch row share one mask: `why`, `can` are `refuse`'s."""
    index = grid.bound.index
    if (index == index[:, :1]).all():
        return
    cell = grid.first_difference(Batch(index[:, :1], grid.bound.spans))
    if cell is not None:
        raise refuse(target, grid, cell, why, can)


def require_exact(target: str, grid: Grid, meaning: Mask | Spans | Batch, why: str) -> None:
    """Raise unless what a target would show is what the mask shows, cell for cell.

    Args:
        target: its name.
        grid: the mask.
        meaning: what the target's best arguments mean on this grid.
        why: what those are and what they cannot say.
    """
    cell = grid.first_difference(meaning)
    if cell is not None:
        raise refuse(target, grid, cell, why)
