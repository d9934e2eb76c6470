"""flashinfer: causal, a left window, bits, or a block-sparse matrix.

    True means          attend
    window_left=w       a query sees w keys before itself and itself: w + 1; -1 is no limit
    causal when q != k  bottom-right
    packed mask         one bit a cell, little-endian, the *whole* grid flattened before packing: a
                        row does not begin on a byte; each request begins on one
    batch, heads        a mask a request (`qo_indptr`); all heads share it
    empty row           not documented, so refused unless accepted

Source: https://docs.flashinfer.ai/api/prefill.html and https://docs.flashinfer.ai/api/sparse.html
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from hitherto.errors import Unsupported
from hitherto.lowering import ranges
from hitherto.lowering.arrays import Library, placed
from hitherto.lowering.block_tables import Runs
from hitherto.lowering.call import Call
from hitherto.lowering.empty import refuse_undocumented_rows
from hitherto.lowering.grid import Grid, refuse, require_one_head
from hitherto.lowering.packing import Rows, first_difference, no_packing, whole
from hitherto.mask import blocks

Array = np.ndarray
Form = Literal["arguments", "bits", "bsr"]


def flashinfer(
    grid: Grid,
    *,
    form: Form | None = None,
    block: tuple[int, int] = (1, 1),
    empty: str = "refuse",
    library: Library = "torch",
    device: Any = None,
) -> Call:
    """Return the arguments that say a mask to flashinfer, and what takes them.

    Args:
        grid: the mask.
        form: "arguments" are `causal` and `window_left` of `single_prefill_with_kv_cache` and of
            the batch wrappers' `plan`; "bits" their `packed_custom_mask`; "bsr" the `indptr`,
            `indices`, `M`, `N`, `R`, `C` and `mask` of `BlockSparseAttentionWrapper.plan`.
            Unless given, arguments where these are exact, else bits.
        block: (R, C) of a "bsr"; must divide the grid.
        empty: "refuse" rows that see no key, or "accept" what the kernel makes of them.
        library: of the arrays.
        device: of torch tensors.
    Raises:
        Unsupported: heads that differ; a batch as "bsr"; empty rows, unless accepted.
    """
    require_one_head("flashinfer", grid, "all heads of a request share one mask")
    refuse_undocumented_rows("flashinfer", grid, empty)
    if form in (None, "arguments"):
        rows = Rows.of("flashinfer", grid) if form else _rows(grid)
        found, cell = whole(rows) if rows else (None, (0, 0))
        if found and found.right in (None, 0):
            left = -1 if found.left is None else found.left
            said = {"causal": found.right == 0, "window_left": left}
            return Call(name="flashinfer.single_prefill_with_kv_cache", arguments=said)
        if form:
            raise _no_arguments(grid, rows, found, cell)
    said = _bsr(grid, *block) if form == "bsr" else _bits(grid)
    name = {"bsr": "BlockSparseAttentionWrapper.plan"}.get(
        str(form), "single_prefill_with_kv_cache"
    )
    if grid.batch > 1:
        name = "BatchPrefillWithRaggedKVCacheWrapper.plan"
    arrays = {key: placed(x, library, device) if isinstance(x, Array) else x
              for key, x in said.items()}  # fmt: skip
    return Call(name=f"flashinfer.{name}", arguments=arrays)


def _rows(grid: Grid) -> Rows | None:
    try:
        return Rows.of("flashinfer", grid)
    except Unsupported:
        return None


def _no_arguments(grid: Grid, rows: Any, found: Any, cell: tuple[int, int]) -> Unsupported:
    """Name the first cell that causal, or a window to the left, shows otherwise."""
    if found is not None:
        wider = replace(found, right=None)
        cell = first_difference(rows, wider)
    return no_packing("flashinfer", grid, rows, cell, "bottom-right")


def _bits(grid: Grid) -> dict[str, Any]:
    grid.require_room("flashinfer")
    bits = [
        np.packbits(ranges.dense(grid.bound[b, 0]).ravel(), bitorder="little")
        for b in range(grid.batch)
    ]
    said: dict[str, Any] = {"packed_custom_mask": np.concatenate(bits)}
    if grid.batch > 1:
        steps = np.arange(grid.batch + 1, dtype=np.int32)
        said |= {"qo_indptr": steps * np.int32(grid.q_len)}
        said |= {"kv_indptr": steps * np.int32(grid.k_len)}
    return said


def _bsr(grid: Grid, height: int, width: int) -> dict[str, Any]:
    if grid.batch > 1 or grid.q_len % height or grid.k_len % width:
        raise refuse(
            "flashinfer", grid, None,
            f"a block-sparse matrix has no batch axis and is cut into whole {height} x {width} "
            "blocks",
            "form='bits', or block=(1, 1) for one batch row",
        )  # fmt: skip
    spans = grid.bound.spans[0]
    tiles = blocks(spans, height, width)
    shape = grid.q_len // height, grid.k_len // width
    touched = Runs(*shape, tiles.offsets, tiles.start, tiles.stop)
    row, column = touched.cells()
    said = {
        "indptr": np.append(0, np.cumsum(touched.counts)).astype(np.int32),
        "indices": column.astype(np.int32),
        "M": grid.q_len, "N": grid.k_len, "R": height, "C": width,
    }  # fmt: skip
    if not tiles.full.all():
        grid.require_room("flashinfer")
        cells = ranges.dense(spans).reshape(shape[0], height, shape[1], width)
        said["mask"] = cells[row, :, column]
    return said
