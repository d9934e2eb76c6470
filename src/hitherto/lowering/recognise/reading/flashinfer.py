"""flashinfer: bits of whole requests, and block-sparse rows."""

from typing import Any

import numpy as np

from hitherto.lowering.recognise.reading.grid import (
    batch_of,
    by_cells,
    by_ranges,
    first_query,
    ints,
    lone,
    needed,
    plain,
)
from hitherto.mask import Batch, Spans


def bits(said: dict[str, Any], lengths: tuple[int | None, int | None, int | None]) -> Batch:
    """Read `packed_custom_mask`: each request's grid flattened, then packed, little-endian."""
    packed = np.asarray(plain(said["packed_custom_mask"]))
    q_len, k_len = needed("q_len", lengths[0]), needed("k_len", lengths[1])
    start = first_query(q_len, k_len, lengths[2])
    width = -(-q_len * k_len // 8)
    batch = packed.size // width if width else 1

    def one(b: int, _: int) -> Spans:
        mine = packed[b * width : (b + 1) * width]
        cells = np.unpackbits(mine, bitorder="little", count=q_len * k_len)
        return by_cells([cells.astype(bool).reshape(q_len, k_len)], q_len, k_len, start)

    return batch_of((batch, 1), one)


def blocks(said: dict[str, Any], q_start: int | None) -> Batch:
    """Read `indptr`, `indices` and perhaps `mask` of blocks R x C in a grid M x N."""
    rows, keys, high, wide = (int(said[name]) for name in ("M", "N", "R", "C"))
    indptr, column = (ints(name, said[name], 1) for name in ("indptr", "indices"))
    block = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    cells = np.ones((block.size, high, wide), bool)
    if said.get("mask") is not None:
        cells = np.asarray(plain(said["mask"])).astype(bool)
    at, row, key = np.nonzero(cells)
    q, k = block[at] * high + row, column[at] * wide + key
    return lone(by_ranges(q, k, k + 1, (first_query(rows, keys, q_start), rows, keys)))
