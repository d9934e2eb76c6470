"""The cells in which a pattern and a mask differ: how many, which first, and in words."""

from dataclasses import dataclass

import numpy as np

from hitherto.lowering.ranges import row_ranges
from hitherto.mask import Batch, Mask, Spans, bind_batch, pairs

FIRST = 8
"""Cells that are listed."""

FEW = 3
"""Cells that are named one by one in words."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Cells in which a pattern and a mask differ, over all batch rows and heads."""

    count: int
    """How many."""

    extra: int
    """How many of them the mask shows and the pattern hides."""

    first: tuple[tuple[int, int, int, int], ...]
    """The first few: (batch, head, query, key)."""

    words: str
    """For example "query 5 also sees key 9"; empty where there are none."""


def differences_of(grid: Batch, pattern: Mask) -> Differences:
    """Compare what was read with a pattern. O(runs) for each distinct pair of grids."""
    q_start, q_len, k_len = grid.spans[0].grid
    named = bind_batch(pattern, q_len, k_len, q_start)
    mine, theirs = np.broadcast_arrays(grid.index, named.index)
    sides: dict[tuple[int, int], tuple[Spans, Spans]] = {}
    count = extra = 0
    cells: list[tuple[int, int, int, int]] = []
    words = ""
    for b, h in np.ndindex(mine.shape):
        pair = int(mine[b, h]), int(theirs[b, h])
        if pair not in sides:
            one, two = grid.spans[pair[0]], named.spans[pair[1]]
            sides[pair] = one - two, two - one
        more, less = sides[pair]
        new = int(pairs(more)), int(pairs(less))
        count, extra = count + sum(new), extra + new[0]
        if sum(new) and len(cells) < FIRST:
            cells += [(b, h, *cell) for cell in first_cells(more | less, FIRST - len(cells))]
            words = words or _said(more, less)
    if words and mine.size > 1:
        at = [f"batch row {cells[0][0]}"] * (mine.shape[0] > 1)
        at += [f"head {cells[0][1]}"] * (mine.shape[1] > 1)
        words = f"in {', '.join(at)} {words}; {count:,} cells differ in all"
    return Differences(count, extra, tuple(cells), words)


def first_cells(spans: Spans, most: int) -> list[tuple[int, int]]:
    """Return the first visible (query, key) pairs, row by row."""
    cells: list[tuple[int, int]] = []
    for row, lo, hi in zip(*(x[:most].tolist() for x in row_ranges(spans)), strict=True):
        cells += [(row + spans.q_start, key) for key in range(lo, min(hi, lo + most))]
    return cells[:most]


def _said(more: Spans, less: Spans) -> str:
    """Name a few cells, or the rows that see as many keys too many or too few, or count."""
    extra, missing = int(pairs(more)), int(pairs(less))
    cells = sorted([(*cell, True) for cell in first_cells(more, FEW + 1)]
                   + [(*cell, False) for cell in first_cells(less, FEW + 1)])  # fmt: skip
    if extra + missing <= FEW:
        verb = {True: "also sees", False: "does not see"}
        return " and ".join(f"query {q:,} {verb[seen]} key {k:,}" for q, k, seen in cells)
    if not extra or not missing:
        rows = _alike(more if extra else less)
        if rows:
            return f"{rows} too {'many' if extra else 'few'}"
    q, k, _ = cells[0]
    return (f"{extra:,} cells are visible besides and {missing:,} are hidden, the first at query "
            f"{q:,}, key {k:,}")  # fmt: skip


def _alike(spans: Spans) -> str:
    """Return "rows 7..9 see 2 keys" where rows without a gap show as many keys each, else ""."""
    row, lo, hi = row_ranges(spans)
    rows, at = np.unique(row, return_inverse=True)
    keys = np.bincount(at, hi - lo).astype(int)
    if (keys != keys[0]).any() or rows[-1] - rows[0] + 1 != rows.size:
        return ""
    first, last = rows[0] + spans.q_start, rows[-1] + spans.q_start
    which = f"rows {first:,}..{last:,} see" if first < last else f"row {first:,} sees"
    return f"{which} {'one key' if keys[0] == 1 else f'{keys[0]:,} keys'}"
