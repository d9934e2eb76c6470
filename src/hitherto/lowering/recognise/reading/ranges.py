"""FlashMask's columns and MagiAttention's slices: ranges of rows, ranges of keys."""

from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.flashmask import FlashMask
from hitherto.lowering.magi import FULL, MagiSlices
from hitherto.lowering.recognise.reading.grid import (
    Array,
    batch_of,
    by_cells,
    by_ranges,
    first_query,
    ints,
    lone,
    needed,
)
from hitherto.mask import Batch, Spans

STRIP = 1 << 22


def flash_mask(
    found: FlashMask, q_len: int | None, k_len: int | None, q_start: int | None
) -> Batch:
    """Read, for each key, the rows that are hidden from it. O(queries * keys) once."""
    columns = found.startend_row_indices
    rows = np.zeros((1, 1, needed("k_len", k_len), 0)) if columns is None else ints(
        "startend_row_indices", columns, 4)  # fmt: skip
    keys, count = rows.shape[2:]
    if count not in ((0, 1, 2) if found.causal else (0, 2, 4)):
        raise MaskError(
            explain("startend_row_indices", "must have 1 or 2 columns if causal, else 2 or 4",
                    f"shape {rows.shape}, causal={found.causal}", "see FlashMask's documentation")
        )  # fmt: skip
    queries = keys if q_len is None else q_len
    start = first_query(queries, keys, q_start)

    def strips(columns: Array) -> Any:
        at, key = np.arange(queries)[:, None], np.arange(keys)
        for first in range(0, queries, max(1, STRIP // keys)):
            row = at[first : first + max(1, STRIP // keys)]
            seen = ~_hidden(row, columns, found.causal)
            yield seen & (key <= row) if found.causal else seen & (key >= 0)

    return batch_of(
        rows.shape[:2], lambda b, h: by_cells(strips(rows[b, h].T), queries, keys, start)
    )  # type: ignore[arg-type]


def _hidden(row: Array, columns: Array, causal: bool) -> Array:
    match len(columns):
        case 0:
            return np.zeros((len(row), 1), bool)
        case 1:
            return columns[0] <= row
        case 2 if not causal:
            return (columns[0] <= row) | (row < columns[1])
        case 2:
            return (columns[0] <= row) & (row < columns[1])
    lower, upper = columns[:2], columns[2:]
    return _hidden(row, lower, True) | _hidden(row, upper, True)


def magi_slices(
    slices: MagiSlices, q_len: int | None, k_len: int | None, q_start: int | None
) -> Batch:
    """Read the union of rectangles, cut along diagonals. O(rows of all slices)."""
    q, k = (ints(f"MagiSlices.{x}_ranges", getattr(slices, f"{x}_ranges"), 2) for x in "qk")
    kind = ints("MagiSlices.attn_type_map", slices.attn_type_map, 1)
    if not len(q) == len(k) == len(kind) or not np.isin(kind, range(FULL, FULL + 4)).all():
        raise MaskError(
            explain("MagiSlices", "must have as many q_ranges, k_ranges and types of 0 .. 3",
                    f"{len(q)}, {len(k)} and {kind.tolist()[:8]}", "see magi_attention's enum.py")
        )  # fmt: skip
    height = q[:, 1] - q[:, 0]
    part = np.repeat(np.arange(len(q)), height)
    row = np.arange(part.size) - np.repeat(np.cumsum(height) - q[:, 1], height)
    lo, hi = k[part].T
    lo = lo + np.where(kind[part] & 2, row - q[part, 0], 0)
    hi = hi - np.where(kind[part] & 1, q[part, 1] - 1 - row, 0)
    q_len = int(q[:, 1].max(initial=0)) if q_len is None else q_len
    k_len = int(k[:, 1].max(initial=0)) if k_len is None else k_len
    return lone(by_ranges(row, lo, hi, (first_query(q_len, k_len, q_start), q_len, k_len)))


def key_bounds(lo: Any, hi: Any, q_len: int, k_len: int, q_start: int | None) -> Batch:
    """Read the first key of each row and one past its last, as tokamax has them."""
    lo, hi = np.broadcast_arrays(lo, hi)
    axes = (*lo.shape[:-1], 1, 1)[:2]
    lo, hi = (np.broadcast_to(x, (*axes, q_len)) for x in (lo, hi))
    grid = first_query(q_len, k_len, q_start), q_len, k_len

    def one(b: int, h: int) -> Spans:
        return by_ranges(np.arange(q_len), lo[b, h], hi[b, h], grid)

    return batch_of(axes, one)
