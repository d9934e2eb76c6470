"""Put a mask on a grid of queries and keys: an expression becomes Spans."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.algebra import combine, sweep
from hitherto.mask.canonical import canonical
from hitherto.mask.evaluate import cells
from hitherto.mask.expression import (
    And,
    Mask,
    Minus,
    Not,
    Or,
    Shift,
    Xor,
    _Leaf,
    _Pair,
    axes,
    require_int,
    require_mask,
    select,
)
from hitherto.mask.hull import ahead_of, hull
from hitherto.mask.leaves import Runs, may_need_cells, runs_of
from hitherto.mask.positions import Band, Dilated, Strided
from hitherto.mask.spans import Array, Spans, full, well_formed
from hitherto.mask.words import MAX_WORDS, require_room

ROWS_AT_ONCE = 64
CELLS_AT_ONCE = 1 << 22
"""Cells evaluated together, at most, where a mask has no spans."""

ENOUGH_WORDS = 1 << 20
"""Words after which those so far tell whether all of them could have room."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The Spans of a mask with a batch or head axis: `spans[index[b, h]]`, each distinct one once.

    `index` is int64 (batch, heads); an axis that the mask has not is of size 1.
    """

    index: Array
    spans: tuple[Spans, ...]

    def __getitem__(self, at: tuple[int, int]) -> Spans:
        return self.spans[int(self.index[at])]


def bind(mask: Mask, q_len: int, k_len: int, q_start: int | None = None) -> Spans | Batch:
    """Put a mask on a grid.

    Args:
        mask: any mask.
        q_len: number of queries, >= 0.
        k_len: number of keys, >= 0; keys are at positions `0 .. k_len - 1`.
        q_start: position of the first query, >= 0. Unless given, queries are the last `q_len` of
            the `k_len` positions.
    Returns:
        canonical Spans, or a Batch of them when the mask has a batch or head axis.
    Raises:
        MaskError: lengths that are no lengths, queries outside, positions beyond the mask's data.
    Cost: O(runs + spans); masks without spans by nature (`Table`, `Predicate`, dense strides) cost
        their cells, within what the masks they are `&`-ed with leave visible.
    """
    q_start = require_grid(mask, q_len, k_len, q_start)
    if axes(mask) == (None, None):
        return _bind(mask, q_len, k_len, q_start)
    return bind_batch(mask, q_len, k_len, q_start)


def bind_batch(mask: Mask, q_len: int, k_len: int, q_start: int | None = None) -> Batch:
    """Put a mask on a grid, always as a Batch: (1, 1) for a mask without axes. See `bind`."""
    q_start = require_grid(mask, q_len, k_len, q_start)
    batch, heads = axes(mask)
    known: dict[Mask, int] = {}
    index = np.zeros((batch or 1, heads or 1), np.int64)
    for b, h in np.ndindex(index.shape):
        index[b, h] = known.setdefault(select(mask, b, h), len(known))
    return Batch(index, tuple(_bind(part, q_len, k_len, q_start) for part in known))


def require_grid(mask: Mask, q_len: int, k_len: int, q_start: int | None) -> int:
    """Check a grid and return its `q_start`."""
    require_mask("mask", mask)
    require_int("q_len", q_len, 0)
    require_int("k_len", k_len, 0)
    if q_start is None:
        q_start = k_len - q_len
        if q_start < 0:
            raise MaskError(
                explain("q_len", f"must be at most k_len = {k_len} unless q_start is given", q_len,
                        "pass q_start, e.g. 0, where queries are not the last keys")
            )  # fmt: skip
    require_int("q_start", q_start, 0, "queries are at positions >= 0")
    if q_len * k_len >= 1 << 62:
        raise MaskError(
            explain("q_len * k_len", "must be below 2**62 cells", q_len * k_len, "bind fewer rows")
        )
    return q_start


def _bind(mask: Mask, q_len: int, k_len: int, q_start: int) -> Spans:
    whole = full(q_start, q_len, k_len)
    if not q_len:
        return whole
    spans = _within(mask, whole, 0, 0)
    return canonical(spans if well_formed(spans) else combine(spans, whole, "and"))


def _within(mask: Mask, area: Spans, dq: int, dk: int) -> Spans:
    """Return spans that equal the mask, moved by (dq, dk), inside `area`; outside, anything.

    Masks that have spans are combined in one pass. Those that must be asked cell by cell are asked
    only inside `area`, so an `&` binds its cheap side first and asks the other within it.
    """
    if not _asks_cells(mask):
        whole = full(*area.grid)
        leaves = list(_leaves(mask, whole, dq, dk))
        if isinstance(mask, _Leaf) and leaves[0] is not None:
            return leaves[0]
        if all(leaves):
            return sweep([whole, *leaves], lambda seen: seen[0] & _truth(mask, iter(seen[1:])))
    match mask:
        case And(left=a, right=b):
            a, b = (b, a) if _asks_cells(a) else (a, b)
            one = combine(_within(a, area, dq, dk), area, "and")
            return combine(one, _within(b, one, dq, dk), "and")
        case Minus(left=a, right=b):
            one = combine(_within(a, area, dq, dk), area, "and")
            return combine(one, _within(b, one, dq, dk), "minus")
        case Or(left=a, right=b):
            return combine(_within(a, area, dq, dk), _within(b, area, dq, dk), "or")
        case Xor(left=a, right=b):
            return combine(_within(a, area, dq, dk), _within(b, area, dq, dk), "xor")
        case Not(mask=a):
            return combine(full(*area.grid), _within(a, area, dq, dk), "minus")
        case Shift(mask=a, q=q, k=k):
            return _within(a, area, dq + q, dk + k)
    return _runs(mask, area, dq, dk) or _asked(mask, area, dq, dk)


def _leaves(mask: Mask, area: Spans, dq: int, dk: int) -> Iterator[Spans | None]:
    """Give the spans of each mask inside an expression, left to right; None for one without."""
    match mask:
        case _Pair(left=a, right=b):
            yield from _leaves(a, area, dq, dk)
            yield from _leaves(b, area, dq, dk)
        case Not(mask=a):
            yield from _leaves(a, area, dq, dk)
        case Shift(mask=a, q=q, k=k):
            yield from _leaves(a, area, dq + q, dk + k)
        case _:
            yield _runs(mask, area, dq, dk)


def _truth(mask: Mask, seen: Iterator[Array]) -> Array:
    """Work out an expression, given what each mask inside it says, left to right."""
    match mask:
        case And(left=a, right=b):
            return _truth(a, seen) & _truth(b, seen)
        case Or(left=a, right=b):
            return _truth(a, seen) | _truth(b, seen)
        case Xor(left=a, right=b):
            return _truth(a, seen) ^ _truth(b, seen)
        case Minus(left=a, right=b):
            return _truth(a, seen) & ~_truth(b, seen)
        case Not(mask=a):
            return ~_truth(a, seen)
        case Shift(mask=a):
            return _truth(a, seen)
    return next(seen)


def _runs(mask: Mask, area: Spans, dq: int, dk: int) -> Spans | None:
    """Return the spans of a mask of its own; None where it has none, or too many."""
    q0, q1 = area.q_start - dq, area.q_stop - dq
    least, most = ahead_of(area) if isinstance(mask, Strided) else (0, 0)
    runs = runs_of(mask, q0, q1, -dk, area.k_len - dk, (least + dq - dk, most + dq - dk))
    return None if runs is None else _placed(runs, area, dq, dk)


def _asks_cells(mask: Mask) -> bool:
    match mask:
        case _Pair(left=a, right=b):
            return _asks_cells(a) or _asks_cells(b)
        case Not(mask=a) | Shift(mask=a):
            return _asks_cells(a)
    return may_need_cells(mask)


def _placed(runs: Runs, area: Spans, dq: int, dk: int) -> Spans:
    """Move runs to the grid's positions and clamp their ends, so that sums stay small."""
    a, s, b, t = runs.ends
    ends = []
    for offset, slope in ((a, s), (b, t)):
        least, most = slope * -area.q_stop, area.k_len - slope * area.q_start
        ends += [np.maximum(np.minimum(offset + dk - slope * dq, most), least), slope]
    offsets = np.append(0, np.cumsum(runs.counts))
    return Spans(*area.grid, runs.starts + dq, offsets, *ends, np.zeros(runs.starts.size, bool))


def _asked(mask: Mask, area: Spans, dq: int, dk: int) -> Spans:
    """Evaluate a mask's cells inside the hull of `area`, some rows at a time, as bits."""
    if isinstance(mask, Dilated):
        reach = Band((mask.width - 1) * mask.step, 0)
        area = combine(_within(reach, area, dq, dk), area, "and")
    words, values, counts, total = [], [], [], 0
    for q0, q1, lo, hi in _strips(area):
        grid = np.zeros((q1 - q0, -(-(hi - lo) // 64) * 64), bool)
        grid[:, : hi - lo] = cells(mask, np.arange(q0, q1) - dq, np.arange(lo, hi) - dk)
        packed = np.packbits(grid, axis=1, bitorder="little").view(np.uint64)
        row, word = np.nonzero(packed)
        words.append(word + lo // 64)
        values.append(packed[row, word].view(np.int64))
        counts.append(np.bincount(row, minlength=q1 - q0))
        total += row.size
        expected = total * area.q_len // (q1 - area.q_start)
        require_room(expected if total > ENOUGH_WORDS and expected > 4 * MAX_WORDS else total)
    word, value = np.concatenate(words), np.concatenate(values)
    still = np.zeros(word.size, np.int64)
    return Spans(
        *area.grid, np.arange(area.q_start, area.q_stop),
        np.append(0, np.cumsum(np.concatenate(counts))), word, still, value, still,
        np.ones(area.q_len, bool),
    )  # fmt: skip


def _strips(area: Spans) -> Iterator[tuple[int, int, int, int]]:
    """Cut the hull of an area into strips `[q0, q1) x [lo, hi)` of few cells, whole words wide."""
    edges = np.append(np.arange(area.q_start, area.q_stop, ROWS_AT_ONCE), area.q_stop)
    for first, stop, (lo, hi) in zip(edges[:-1], edges[1:], hull(area, edges), strict=True):
        lo = lo // 64 * 64
        rows = max(1, CELLS_AT_ONCE // max(hi - lo, 1))
        for q0 in range(int(first), int(stop), rows):
            yield q0, min(q0 + rows, int(stop)), int(lo), int(max(hi, lo))
