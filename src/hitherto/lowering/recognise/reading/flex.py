"""FlexAttention's `BlockMask`: full blocks are full; in partial ones its mask_mod decides."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.recognise.reading.grid import Array, batch_of, by_ranges, first_query
from hitherto.mask import Batch, Spans
from hitherto.mask.questions.rows import joined

AT_ONCE = 1 << 22
"""Cells that the mask_mod is asked together."""


def block_mask(found: Any, q_start: int | None = None) -> Batch:
    """Read the tables, and ask the mask_mod of the cells of partial blocks only.

    Raises:
        MaskError: partial blocks whose mask_mod was lost by slicing the BlockMask.
    """
    q_len, k_len = found.seq_lengths
    grid = first_query(q_len, k_len, q_start), q_len, k_len

    def one(b: int, h: int) -> Spans:
        parts = [_full(found, b, h), *_partial(found, b, h)]
        return by_ranges(*(np.concatenate(x) for x in zip(*parts, strict=True)), grid)

    return batch_of(tuple(found.kv_num_blocks.shape[:2]), one)  # type: ignore[arg-type]


def _full(found: Any, b: int, h: int) -> tuple[Array, Array, Array]:
    """Return (row, lo, hi) of full blocks, those side by side as one range."""
    bq, bk = found.BLOCK_SIZE
    if found.full_kv_num_blocks is None:
        return (np.zeros(0, np.int64),) * 3
    row, column = _listed(found.full_kv_num_blocks, found.full_kv_indices, b, h)
    width = int(column.max(initial=0)) + 2
    start, stop = joined(row * width + column, row * width + column + 1).T
    row, first = np.divmod(start, width)
    rows = (row[:, None] * bq + np.arange(bq)).ravel()
    lo, hi = first * bk, (stop - row * width) * bk
    return rows, np.repeat(lo, bq), np.repeat(hi, bq)


def _partial(found: Any, b: int, h: int) -> Iterator[tuple[Array, Array, Array]]:
    """Yield (row, lo, hi) inside partial blocks, some blocks at a time."""
    bq, bk = found.BLOCK_SIZE
    row, column = _listed(found.kv_num_blocks, found.kv_indices, b, h)
    each = max(1, AT_ONCE // (bq * bk))
    for some in range(0, row.size, each):
        q, k = row[some : some + each] * bq, column[some : some + each] * bk
        cells = _asked(found, b, h, q, k)
        edges = np.diff(np.pad(cells, ((0, 0), (0, 0), (1, 1))).astype(np.int8), axis=2)
        block, at, lo = np.nonzero(edges == 1)
        hi = np.nonzero(edges == -1)[2]
        yield q[block] + at, k[block] + lo, k[block] + hi


def _asked(found: Any, b: int, h: int, q: Array, k: Array) -> Array:
    """Return the cells of blocks that begin at queries q and keys k: bool (blocks, bq, bk)."""
    import torch

    device = found.kv_num_blocks.device
    bq, bk = found.BLOCK_SIZE
    ask = torch.func.vmap(found.mask_mod, (None, None, None, 0))
    ask = torch.func.vmap(torch.func.vmap(ask, (None, None, 0, None)), (None, None, 0, 0))
    q_len, k_len = found.seq_lengths
    rows, keys = q[:, None] + np.arange(bq), k[:, None] + np.arange(bk)
    # Past the ends of the grid a mask_mod may read beyond its own tables.
    inside = (rows < q_len)[:, :, None] & (keys < k_len)[:, None, :]
    place = [torch.from_numpy(np.minimum(x, n - 1)).to(device)
             for x, n in ((rows, q_len), (keys, k_len))]  # fmt: skip
    where = (torch.tensor(x, device=device) for x in (b, h))
    try:
        seen = ask(*where, *place)
    except RuntimeError as error:
        if "sliced" not in str(error).lower():
            raise
        raise MaskError(
            explain("BlockMask.mask_mod", "must still be there: partial blocks need it",
                    "a BlockMask that lost it when it was sliced",
                    "recognise the whole BlockMask, or set mask_mod again with the offset")
        ) from None  # fmt: skip
    seen = torch.broadcast_to(seen, inside.shape)
    return seen.cpu().numpy().astype(bool) & inside


def _listed(counts: Any, blocks: Any, b: int, h: int) -> tuple[Array, Array]:
    """Return (block row, block column) of the entries that count."""
    counts = counts[b, h].cpu().numpy().astype(np.int64)
    blocks = blocks[b, h].cpu().numpy()
    row = np.repeat(np.arange(counts.size), counts)
    within = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, blocks[row, within].astype(np.int64)
