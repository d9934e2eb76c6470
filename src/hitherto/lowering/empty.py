"""Rows that see no key, for targets that do not promise zeros there."""

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
    if empty == "refuse":
        why = (
            "a row that sees no key becomes the mean of every value, hidden ones too; "
            "empty='mean' accepts that (padding rows whose output nobody reads)"
        )
        require_rows(target, grid, why, real=real)


def refuse_undocumented_rows(target: str, grid: Grid, empty: str) -> None:
    """Raise when a row sees no key, unless the caller takes what the kernel leaves there.

    Args:
        target: the target's name.
        grid: the mask.
        empty: "refuse" or "accept".
    """
    if empty not in ("refuse", "accept"):
        raise ValueError(explain("empty", "must be 'refuse' or 'accept'", empty, "choose one"))
    if empty == "refuse":
        why = "what a row without keys gives is not documented; empty='accept' takes it"
        can = "empty='accept', or a mask that shows padding rows their own key"
        require_rows(target, grid, why, can)


def require_rows(
    target: str, grid: Grid, why: str, can: str = "", real: np.ndarray | None = None
) -> None:
    """Raise when a row sees no key: `why` and `can` are those of `refuse`.

    Args:
        target: the target's name.
        grid: the mask.
        why: what the target would do there.
        can: targets that can.
        real: for each batch row, the rows that count; all unless given.
    """
    for (b, h), i in np.ndenumerate(grid.bound.index) if grid.k_len else ():
        rows = empty_rows(grid.bound.spans[i])
        if rows.size and (real is None or rows[0] < grid.q_start + real[b]):
            raise refuse(target, grid, (b, h, int(rows[0]), 0), why, can)
