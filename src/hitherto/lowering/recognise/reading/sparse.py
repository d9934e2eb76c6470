"""Bits, CSR and COO: visible cells, one bit or one index each."""

from collections.abc import Iterator

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.recognise.forms import Bits
from hitherto.lowering.recognise.reading.grid import (
    Array,
    batch_of,
    by_cells,
    by_ranges,
    first_query,
    ints,
    plain,
)
from hitherto.lowering.sparse import Coo, Csr
from hitherto.mask import Batch

STRIP = 1 << 21
"""Bytes of bits looked at together."""


def bits(packed: Bits, q_start: int | None = None) -> Batch:
    """Read one bit a cell."""
    array, width = np.asarray(plain(packed.array)), -(-packed.k_len // 8)
    if array.dtype != np.uint8 or array.ndim not in (2, 3, 4) or array.shape[-1] != width:
        raise MaskError(
            explain("Bits.array", f"must be uint8 (..., queries, {width}) for {packed.k_len} keys",
                    f"{array.dtype} of shape {array.shape}",
                    "begin each row on a byte, as numpy.packbits(cells, axis=-1) does")
        )  # fmt: skip
    if packed.order not in ("little", "big"):
        raise MaskError(
            explain("Bits.order", "must be 'little' or 'big'", packed.order, "see numpy.packbits")
        )
    q_len = array.shape[-2]
    start = first_query(q_len, packed.k_len, q_start)

    def strips(one: Array) -> Iterator[Array]:
        rows = max(1, STRIP // max(width, 1))
        return (one[first : first + rows] for first in range(0, q_len, rows))

    shape = (*array.shape[:-2], 1, 1)[:2]
    return batch_of(
        shape,
        lambda b, h: by_cells(
            strips(array[(b, h)[: array.ndim - 2]]), q_len, packed.k_len, start, packed.order
        ),
    )


def csr(matrix: Csr, q_start: int | None = None) -> Batch:
    """Read compressed rows."""
    indptr, key = ints("indptr", matrix.indptr, 1), ints("indices", matrix.indices, 1)
    if (
        indptr.size != int(np.prod(matrix.shape[:-1])) + 1
        or indptr[-1] != key.size
        or (np.diff(indptr) < 0).any()
    ):
        raise MaskError(
            explain("Csr.indptr", "must rise from 0 to the count of indices, one more than rows",
                    f"{indptr.size} values to {indptr[-1]:,}", "see scipy.sparse.csr_array")
        )  # fmt: skip
    row = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return _cells(row, key, matrix.shape, q_start)


def coo(matrix: Coo, q_start: int | None = None) -> Batch:
    """Read coordinates."""
    index = ints("Coo.index", matrix.index, 2)
    outside = index.size and (
        index.min() < 0 or (index.max(1) >= np.array(matrix.shape)[: len(index)]).any()
    )
    if len(index) != len(matrix.shape) or outside:
        raise MaskError(
            explain("Coo.index", f"must be ({len(matrix.shape)}, cells) inside {matrix.shape}",
                    f"shape {index.shape}", "pass the shape of the whole matrix")
        )  # fmt: skip
    row = np.ravel_multi_index(tuple(index[:-1]), matrix.shape[:-1])
    return _cells(row, index[-1], matrix.shape, q_start)


def _cells(row: Array, key: Array, shape: tuple[int, ...], q_start: int | None) -> Batch:
    *axes, q_len, k_len = shape
    grid = first_query(q_len, k_len, q_start), q_len, k_len
    heads = axes[1] if len(axes) > 1 else 1

    def one(b: int, h: int):
        first = (b * heads + h) * q_len
        mine = (first <= row) & (row < first + q_len)
        return by_ranges(row[mine] - first, key[mine], key[mine] + 1, grid)

    return batch_of((*axes, 1, 1)[:2], one)
