"""Rows that see no key, for targets that give them the mean of every value, hidden ones too."""

from typing import Literal

import numpy as np

from hitherto.errors import explain
from hitherto.lowering.grid import Grid, refuse
from hitherto.mask import empty_rows

Empty = Literal["refuse", "mean"]
"""Empty rows are refused, or the caller accepts the mean of all values that the target gives."""


def real_rows(grid: Grid) -> np.ndarray:
    """Count the rows up to the last one that sees a key in any head: int32 (batch,)."""
    counts = []
    for spans in grid.bound.spans:
        some = np.flatnonzero(np.diff(spans.offsets))
        counts.append(int(spans.stops[some[-1]]) - grid.q_start if some.size else 0)
    return np.array(counts, np.int32)[grid.bound.index].max(axis=1)


def refuse_empty_rows(
    target: str, grid: Grid, empty: Empty, real: np.ndarray | None = None
) -> None:
    """Raise when a row sees no key, unless the caller said that its mean is welcome.

    Args:
        target: the target's name.
        grid: the mask.
        empty: "refuse" or "mean".
        real: for each batch row, the rows that count; the target gives zeros after these.
    """
    if empty not in ("refuse", "mean"):
        raise ValueError(
            explain("empty", "must be 'refuse' or 'mean'", empty, "choose what empty rows may give")
        )
    if empty == "mean" or not grid.k_len:
        return
    for (b, h), i in np.ndenumerate(grid.bound.index):
        rows = empty_rows(grid.bound.spans[i])
        if rows.size and (real is None or rows[0] < grid.q_start + real[b]):
            raise refuse(
                target, grid, (b, h, int(rows[0]), 0),
                "a row that sees no key becomes the mean of every value, hidden ones too; "
                "empty='mean' accepts that (padding rows whose output nobody reads)",
            )  # fmt: skip
