"""Arrays of every cell: bool, additive, int8, and one bit a cell.

There is no one convention, so each array says its own here:

    dense     bool       True = may attend (as in torch SDPA, Keras and jax.nn)
    additive  float      0 = may attend, -inf = hidden; added to the scores before the softmax
    int8      int8       1 = may attend, 0 = hidden
    bits      uint8      one bit a cell, 1 = may attend; each row begins on a byte

Shape: (queries, keys), or (batch, heads, queries, keys) when the mask has a batch or head axis, of
size 1 where it has not. Row i is position `q_start + i`, column j position j: nothing is aligned.
An empty row is a row of False, -inf or 0; what a softmax makes of it (zeros, NaN, or the mean of
all values where -inf was replaced by a large number) depends on who reads the array. `hidden=` is
therefore never the smallest float unless asked for.
"""

from typing import Any, Literal

import numpy as np

from hitherto.errors import explain
from hitherto.lowering import ranges
from hitherto.lowering.grid import Grid
from hitherto.mask import Spans, axes

Array = np.ndarray
Library = Literal["numpy", "torch"]


def dense(grid: Grid, *, library: Library = "numpy", device: Any = None) -> Any:
    """Return bools, True = may attend. O(queries * keys), one byte a cell."""
    return placed(_cells(grid, "dense"), library, device)


def int8(grid: Grid, *, library: Library = "numpy", device: Any = None) -> Any:
    """Return int8, 1 = may attend."""
    return placed(_cells(grid, "int8").view(np.int8), library, device)


def additive(
    grid: Grid,
    *,
    dtype: Any = "float32",
    hidden: float = -np.inf,
    library: Library = "numpy",
    device: Any = None,
) -> Any:
    """Return what is added to the scores: 0 where a query may attend, else `hidden`.

    Args:
        grid: the mask.
        dtype: a float type by name, or a torch dtype, which makes it a torch tensor.
        hidden: -inf, or a finite number for a library that takes no infinities. With a finite one
            an empty row attends to everything, and scores larger than it leak.
        library: "numpy" or "torch".
        device: of the torch tensor.
    """
    seen = _cells(grid, "additive")
    if library == "torch" or not isinstance(dtype, (str, type, np.dtype)):
        import torch

        kind = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        bias = torch.zeros(seen.shape, dtype=kind, device=device)
        return bias.masked_fill_(~torch.from_numpy(seen).to(bias.device), hidden)
    kind = np.dtype(dtype).type
    return np.where(seen, kind(0), kind(hidden))


def bits(
    grid: Grid,
    *,
    order: Literal["little", "big"] = "little",
    library: Library = "numpy",
    device: Any = None,
) -> Any:
    """Return one bit a cell: uint8 (..., queries, ceil(keys / 8)).

    Args:
        grid: the mask.
        order: "little" puts key 0 in the lowest bit of a byte (flashinfer), "big" in the highest
            (numpy's default). Bits past the last key are 0.
        library: "numpy" or "torch".
        device: of the torch tensor.
    """
    if order not in ("little", "big"):
        raise ValueError(explain("order", "must be 'little' or 'big'", order, "see numpy.packbits"))
    width = -(-grid.k_len // 8)
    grid.require_room("bits", grid.batch * grid.heads * grid.q_len * width)

    def packed(spans: Spans) -> Array:
        rows = np.empty((spans.q_len, width), np.uint8)
        for first, strip in ranges.strips(spans):
            rows[first : first + len(strip)] = np.packbits(strip, axis=1, bitorder=order)
        return rows

    return placed(_stacked(grid, packed), library, device)


def _cells(grid: Grid, target: str) -> Array:
    grid.require_room(target)
    return _stacked(grid, ranges.dense)


def _stacked(grid: Grid, of: Any) -> Array:
    """Put the arrays of distinct Spans where the mask's batch rows and heads are."""
    arrays = [of(spans) for spans in grid.bound.spans]
    if axes(grid.mask) == (None, None):
        return arrays[0]
    return np.stack(arrays)[grid.bound.index]


def four_axes(cells: Any) -> Any:
    """Return (queries, keys), with batch and heads or without, as (batch, heads, queries, keys)."""
    return cells[(None,) * (4 - cells.ndim)]


def placed(array: Array, library: Library, device: Any = None) -> Any:
    """Return an array as numpy, or as a torch tensor on a device."""
    if library == "numpy":
        return array
    if library != "torch":
        raise ValueError(
            explain("library", "must be 'numpy' or 'torch'", library, "lower to 'jax' for JAX")
        )
    import torch

    return torch.from_numpy(array).to(device)
