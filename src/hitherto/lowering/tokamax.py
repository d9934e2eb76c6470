"""tokamax (0.0.12): the first key of each row and the one after its last.

    True means             attend (`bool_mask`)
    k_start, k_end         int32, a number a row: row i sees keys `k_start[i] .. k_end[i] - 1`
    causal when q != k     top-left (`is_causal`): row i sees keys `0 .. i`
    empty row              the mean of every value, hidden ones too (xla, xla_chunked)

One range a row is what its kernels use to bound their loop over keys. A mask with gaps in a row
(sinks and a window, two images) is not sayable so; as `bool_mask` it is, dense, without that gain.
Its `dot_product_attention(local_window_size=)` counts rows by keys, so it fails or is wrong where
queries != keys: these arguments do not use it.

Source: https://github.com/openxla/tokamax/blob/main/tokamax/_src/ops/attention/base.py
"""

from typing import Any

import numpy as np

from hitherto.lowering.empty import Empty, refuse_empty_rows
from hitherto.lowering.grid import Grid, require_exact
from hitherto.lowering.outer import outer, row_bounds
from hitherto.mask import Batch, axes


def tokamax(grid: Grid, *, empty: Empty = "refuse") -> dict[str, Any]:
    """Return the arguments of tokamax's attention `Mask`: `k_start`, `k_end` and `is_causal`.

    `k_start` and `k_end` are int32 of shape (queries,), or (batch, heads, queries) when the mask
    has such axes. `is_causal` takes the place of `k_end` where it says the same.

    Args:
        grid: the mask.
        empty: "refuse" a row that sees no key, or accept the "mean" of all values there.
    Raises:
        Unsupported: a row with a gap, or one that sees no key.
    """
    filled = Batch(grid.bound.index, tuple(outer(spans) for spans in grid.bound.spans))
    require_exact("tokamax", grid, filled, "k_start and k_end are one range of keys a row")
    refuse_empty_rows("tokamax", grid, empty)
    start, end = (_placed(grid, x) for x in zip(*map(row_bounds, filled.spans), strict=True))
    said: dict[str, Any] = {"is_causal": False}
    if start.any():
        said["k_start"] = start
    if grid.q_start == 0 and (end == np.minimum(np.arange(grid.q_len) + 1, grid.k_len)).all():
        said["is_causal"] = True
    elif (end != grid.k_len).any():
        said["k_end"] = end
    return said


def _placed(grid: Grid, rows: tuple[np.ndarray, ...]) -> np.ndarray:
    array = np.stack(rows).astype(np.int32)
    return array[0] if axes(grid.mask) == (None, None) else array[grid.bound.index]
