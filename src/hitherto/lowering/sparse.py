"""Sparse matrices: the visible cells by index.

An index that is listed may be attended to; nothing else is stored, so there is no polarity to get
wrong, and an empty row is an empty list. Rows are query rows (row i is position `q_start + i`),
columns key positions. scipy.sparse, torch.sparse and DGL read the same two arrays.
"""

from typing import Any, NamedTuple

import numpy as np

from hitherto.lowering.arrays import Library, placed
from hitherto.lowering.block_tables import Runs
from hitherto.lowering.grid import Grid
from hitherto.mask import axes, pairs

Array = np.ndarray


class Csr(NamedTuple):
    """Rows of key indices: row r sees `indices[indptr[r] : indptr[r + 1]]`, ascending."""

    indptr: Any
    """int64 (rows + 1,); with axes, row `(batch * heads + head) * queries + query`."""

    indices: Any
    """int64 (cells,)."""

    shape: tuple[int, ...]
    """(queries, keys), or (batch, heads, queries, keys)."""


class Coo(NamedTuple):
    """One column of indices a visible cell, in the order of `numpy.nonzero`."""

    index: Any
    """int64 (2, cells), or (4, cells) when the mask has a batch or head axis."""

    shape: tuple[int, ...]
    """(queries, keys), or (batch, heads, queries, keys)."""


def csr(grid: Grid, *, library: Library = "numpy", device: Any = None) -> Csr:
    """Return compressed rows. O(queries + visible cells)."""
    counts, indices = _rows(grid, "csr")
    indptr = np.append(0, np.cumsum(counts))
    return Csr(placed(indptr, library, device), placed(indices, library, device), _shape(grid))


def coo(grid: Grid, *, library: Library = "numpy", device: Any = None) -> Coo:
    """Return the coordinates of every visible cell. O(queries + visible cells)."""
    counts, indices = _rows(grid, "coo")
    shape = _shape(grid)
    row = np.repeat(np.arange(counts.size), counts)
    index = np.stack([*np.unravel_index(row, shape[:-1]), indices]).astype(np.int64)
    return Coo(placed(index, library, device), shape)


def _shape(grid: Grid) -> tuple[int, ...]:
    plain = axes(grid.mask) == (None, None)
    return (*(() if plain else grid.bound.index.shape), grid.q_len, grid.k_len)


def _rows(grid: Grid, target: str) -> tuple[Array, Array]:
    """Return how many keys each row of each batch row and head sees, and which."""
    index = grid.bound.index.ravel()
    grid.require_room(target, 8 * sum(int(pairs(grid.bound.spans[i])) for i in index))
    lists = []
    for spans in grid.bound.spans:
        runs = Runs.of_rows(spans)
        lists.append((runs.counts, runs.cells()[1]))
    counts, indices = zip(*(lists[i] for i in index), strict=True)
    return np.concatenate(counts), np.concatenate(indices)
