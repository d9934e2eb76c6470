"""FlashMask (PaddlePaddle): for each key, which query rows are hidden from it.

    True means          there is no mask tensor; the numbers name *hidden* rows
    startend_row_indices  int32 (batch, kv heads or 1, keys, 1 | 2 | 4), rows numbered from 0:
        1, causal       rows `[r1, ..)` are hidden, besides those above the diagonal
        2, causal       rows `[r1, r2)` are hidden, besides those above the diagonal
        2, not causal   rows `[r1, ..)` and rows `[.., r2)` are hidden
        4, not causal   rows `[r1, r2)` and rows `[r3, r4)` are hidden
    window_size=w       keeps w + 1 keys (not used here: the rows say it)
    causal when q != k  not documented: `causal=True` is used only for square grids from row 0
    empty row           zeros

A key may be hidden from two runs of rows at most, so a mask whose columns have three is refused.

Source: https://arxiv.org/abs/2410.01359 (section 4.1);
https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/nn/functional/flashmask_attention_en.html
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hitherto.lowering.arrays import Library, placed
from hitherto.lowering.block_tables import Runs, turned
from hitherto.lowering.grid import Grid, refuse
from hitherto.mask import Causal, Spans, bind, subset
from hitherto.mask.spans import full

Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashMask:
    """Arguments of `paddle.nn.functional.flashmask_attention`."""

    startend_row_indices: Any
    """int32 (batch, heads, keys, 1 | 2 | 4); None where causal says all, or nothing is hidden."""

    causal: bool
    """Whether cells above the diagonal are hidden besides."""


def flashmask(grid: Grid, *, library: Library = "numpy", device: Any = None) -> FlashMask:
    """Return the smallest of the forms that is exact. O(queries + keys + runs of hidden rows).

    The head axis is that of the mask: with grouped queries, give a mask a key head.

    Raises:
        Unsupported: a key that is hidden from more than two runs of rows.
    """
    index, each = grid.bound.index, grid.bound.spans
    if grid.q_len == grid.k_len and grid.q_start == 0:
        triangle = bind(Causal(), grid.q_len, grid.k_len, 0)
        below = [_hidden(triangle - spans) for spans in each]
        if all(subset(spans, triangle) and _most(h) <= 1
               for spans, h in zip(each, below, strict=True)):  # fmt: skip
            table = np.stack([_table(h, both=False) for h in below])
            return _smallest(table, index, grid.q_len, True, library, device)
    hidden = [_hidden(full(*spans.grid) - spans) for spans in each]
    for i, h in enumerate(hidden):
        if _most(h) > 2:
            raise _third_run(grid, i, h)
    return _smallest(np.stack([_table(h) for h in hidden]), index, grid.q_len, False, library,
                     device)  # fmt: skip


def _smallest(
    table: Array, index: Array, q_len: int, causal: bool, library: Library, device: Any
) -> FlashMask:
    """Leave out the columns that say nothing: rows `[q_len, q_len)` and rows `[0, 0)`."""
    starts, stops = table[..., ::2], table[..., 1::2]
    if (starts >= stops).all():
        return FlashMask(startend_row_indices=None, causal=causal)
    if (table[..., 1] == q_len).all() and (causal or (table[..., 2] == 0).all()):
        table = table[..., :1] if causal else table[..., [0, 3]]
    rows = placed(np.ascontiguousarray(table[index]), library, device)
    return FlashMask(startend_row_indices=rows, causal=causal)


def _hidden(spans: Spans) -> Runs:
    """Return the runs of rows of every key in which these spans have it."""
    return turned(Runs.of_rows(spans))


def _most(hidden: Runs) -> int:
    return int(np.diff(hidden.offsets).max(initial=0))


def _table(hidden: Runs, both: bool = True) -> Array:
    """Return (first row, end) of the lower hidden run of every key, then of the upper: (keys, 4).

    A run alone is the lower one, unless it begins at row 0 and stops before the last. With not
    `both` there is no upper one: (keys, 2).
    """
    rows, counts = hidden.columns, np.diff(hidden.offsets)
    table = np.tile(np.array([rows, rows, 0, 0], np.int32), (hidden.rows, 1))
    key = np.repeat(np.arange(hidden.rows), counts)
    last = np.arange(key.size) == hidden.offsets[1:][key] - 1
    upper = both & ((hidden.start == 0) & (hidden.stop < rows) | ~last)
    for side, at in ((0, ~upper), (2, upper)):
        table[key[at], side], table[key[at], side + 1] = hidden.start[at], hidden.stop[at]
    return table if both else table[:, :2]


def _third_run(grid: Grid, i: int, hidden: Runs) -> Exception:
    key = int(np.argmax(np.diff(hidden.offsets) > 2))
    b, h = (int(x[0]) for x in np.nonzero(grid.bound.index == i))
    row = int(hidden.start[hidden.offsets[key] + 2])
    return refuse(
        "flashmask", grid, (b, h, grid.q_start + row, key),
        "a key may be hidden from two runs of rows at most; here begins its third",
    )  # fmt: skip
