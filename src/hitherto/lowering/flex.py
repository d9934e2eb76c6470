"""FlexAttention: a `BlockMask` from Spans, without evaluating a single cell.

True = attend. A mask_mod speaks of row and column *numbers*, so causal is wherever the caller's
arithmetic puts it; here row i is position `q_start + i`. There is no window argument. A row that
sees no key gives zeros. (https://pytorch.org/blog/flexattention/)

torch's own `create_block_mask` evaluates the mask_mod for every (batch, head, query, key), which
takes longer than the attention (https://github.com/pytorch/pytorch/issues/151043), and at a ragged
edge counts a last block as partial where every real cell of it is visible. The tables here are
those of `hitherto.mask.blocks`, exact at the edges: the kernels mask keys past the end themselves.
"""

from typing import Any

import numpy as np

from hitherto.errors import explain
from hitherto.lowering.block_tables import Runs, columns_of, table
from hitherto.lowering.grid import Grid
from hitherto.lowering.mask_mod import mask_mod
from hitherto.mask import blocks


def flex(grid: Grid, *, block: int | tuple[int, int] = 128, device: Any = None) -> Any:
    """Return a `BlockMask` with its `mask_mod`, tables for the backward pass included.

    Args:
        grid: the mask. Axes that it has not, or along which it does not vary, are of size 1.
        block: queries and keys of a tile, or one number for both. On a GPU a multiple of 128.
        device: where the tables go.
    Cost: O(runs + query blocks * most key blocks of one), and 8 bytes a query for the mask_mod.
    """
    from torch.nn.attention.flex_attention import BlockMask

    bq, bk = (block, block) if isinstance(block, int) else block
    if not grid.q_len or not grid.k_len:
        raise ValueError(
            explain("lower(to='flex')", "needs at least one query and one key",
                    f"{grid.q_len} x {grid.k_len}", "skip the attention: there is nothing to see")
        )  # fmt: skip
    index = varying(grid.bound.index)
    tiles = [blocks(spans, bq, bk) for spans in grid.bound.spans]
    shape = -(-grid.q_len // bq), -(-grid.k_len // bk)
    partial = [Runs.of(found, shape, full=False) for found in tiles]
    full = [Runs.of(found, shape, full=True) for found in tiles]
    lists = (
        partial,
        full,
        [columns_of(runs) for runs in partial],
        [columns_of(runs) for runs in full],
    )
    tables = [tensor for kind in lists for tensor in table(kind, index, device)]
    return BlockMask(
        (grid.q_len, grid.k_len), *tables,
        BLOCK_SIZE=(bq, bk), mask_mod=mask_mod(grid.bound.spans, index, device),
    )  # fmt: skip


def varying(index: np.ndarray) -> np.ndarray:
    """Cut axes along which nothing changes to size 1."""
    for axis in (0, 1):
        first = index.take([0], axis)
        if (index == first).all():
            index = first
    return index
