"""The block lists of a kernel, from runs of blocks: how many in each row, and which.

A list may be as long as a row has blocks, and most are not. Kernels want a rectangle (rows,
blocks); what it holds after a row's count is never read, and the order of a row is free. So a large
rectangle is laid over less memory: a row begins where the one before could have its last entry
that is read; or all rows share one list, where they are `c, c + 1, ..`, or `c + row, ..`, or
`c, c - 1, ..`. A million causal tokens take 64 KiB instead of 256 MiB.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hitherto.lowering.ranges import row_ranges
from hitherto.mask import Blocks, Spans
from hitherto.mask.algebra import combine
from hitherto.mask.spans import offsets_of

Array = np.ndarray

SHARED_FROM = 1 << 24
"""Entries of a table from which rows share memory; smaller ones are ordinary arrays."""


FEW = 1 << 16
"""Blocks up to which they are listed one by one, rather than run by run."""

FEW_EACH = 256
"""Blocks of a run, on average, from which copying run by run is faster than all at once."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of blocks: row i holds blocks `[start[e], stop[e])`, e in `offsets[i] ..`, ordered."""

    rows: int
    columns: int
    offsets: Array
    start: Array
    stop: Array

    @classmethod
    def of(cls, blocks: Blocks, shape: tuple[int, int], full: bool) -> Self:
        """Take the full blocks, or the partial ones."""
        row = np.repeat(np.arange(shape[0]), np.diff(blocks.offsets))
        kept = blocks.full == full
        offsets = offsets_of(row[kept], shape[0])
        return cls(*shape, offsets, blocks.start[kept], blocks.stop[kept])

    @classmethod
    def of_rows(cls, spans: Spans) -> Self:
        """Take every row's keys: blocks of one cell."""
        row, lo, hi = row_ranges(spans)
        return cls(spans.q_len, spans.k_len, offsets_of(row, spans.q_len), lo, hi)

    @property
    def counts(self) -> Array:
        """Blocks in each row."""
        ends = np.append(0, np.cumsum(self.stop - self.start))[self.offsets]
        return np.diff(ends)

    def cells(self) -> tuple[Array, Array]:
        """Return the (row, block) of every entry, in order."""
        width = self.stop - self.start
        run = np.repeat(np.arange(width.size), width)
        block = np.arange(run.size) - (np.cumsum(width) - width)[run] + self.start[run]
        return np.repeat(np.arange(self.rows), self.counts), block


def columns_of(runs: Runs) -> Runs:
    """Return the rows in each column, for a list: neighbours may be runs of their own."""
    if runs.rows * runs.columns > FEW:
        return turned(runs)
    row, column = runs.cells()
    order = np.argsort(column, kind="stable")
    start = row[order]
    return Runs(runs.columns, runs.rows, offsets_of(column[order], runs.columns), start, start + 1)


def turned(runs: Runs) -> Runs:
    """Return the runs of rows in each column. O(runs that begin or end from row to row)."""
    rows, columns = runs.rows, runs.columns
    before = _grid(runs, np.append(0, runs.offsets))
    here = _grid(runs, np.append(runs.offsets, runs.offsets[-1]))
    first, column = _by_column(combine(here, before, "minus"))
    stop, _ = _by_column(combine(before, here, "minus"))
    return Runs(columns, rows, offsets_of(column, columns), first, stop)


def _grid(runs: Runs, offsets: Array) -> Spans:
    """Write block rows, with one row more at either end, as Spans."""
    rows = runs.rows + 1
    still = np.zeros(runs.start.size, np.int64)
    keep = slice(0, offsets[-1])
    return Spans(
        0, rows, runs.columns, np.arange(rows), offsets,
        runs.start[keep], still, runs.stop[keep], still, np.zeros(rows, bool),
    )  # fmt: skip


def _by_column(spans: Spans) -> tuple[Array, Array]:
    """Return the (row, column) of every cell, by column and then row."""
    row, lo, hi = row_ranges(spans)
    row, column = Runs(*spans.shape, offsets_of(row, spans.q_len), lo, hi).cells()
    order = np.lexsort((row, column))
    return row[order], column[order]


def table(each: list[Runs], index: Array, device: Any = None) -> tuple[Any, Any]:
    """Return (counts, blocks) as int32 tensors (batch, heads, rows) and (.., rows, columns).

    Args:
        each: the runs of every distinct mask.
        index: which of them a (batch, head) has.
        device: of the tensors.
    """
    import torch

    rows, columns = each[0].rows, each[0].columns
    counts = np.stack([runs.counts for runs in each]).astype(np.int32)
    large = rows * columns * index.size >= SHARED_FROM
    most = int(counts.max(initial=0)) if large else columns
    step, lists = (large and _shared(each)) or _one_after_another(each, most)
    lists = torch.from_numpy(lists[index] if len(each) > 1 else lists[None]).to(device)
    strides = (lists.stride(0), lists.stride(1), step, 1)
    blocks = lists.as_strided((*index.shape, rows, columns), strides)
    return torch.from_numpy(counts[index]).to(device), blocks


def _shared(each: list[Runs]) -> tuple[int, Array] | None:
    """Return (entries from row to row: 0 or 1, one list for all rows), where one list will do.

    Row i is then `c, c + 1, ..` or `c + i, c + i + 1, ..`; or, backwards, `c, c - 1, ..`.
    """
    if any(runs.offsets[-1] != np.count_nonzero(np.diff(runs.offsets)) for runs in each):
        return None
    rows, columns = each[0].rows, each[0].columns
    for step, way in ((0, 1), (1, 1), (0, -1)):
        firsts = [
            (runs.start if way > 0 else runs.stop - 1)
            - step * np.flatnonzero(np.diff(runs.offsets))
            for runs in each
        ]
        if all((first == first[:1]).all() for first in firsts):
            at = way * np.arange(rows + columns)
            lists = [np.clip(at + first[:1].sum(), 0, columns - 1) for first in firsts]
            return step, np.stack(lists).astype(np.int32)
    return None


def _one_after_another(each: list[Runs], most: int) -> tuple[int, Array]:
    """Return (entries from row to row, `most`; the lists of all rows, each as long)."""
    rows, columns = each[0].rows, each[0].columns
    lists = np.zeros((len(each), rows * most + columns), np.int32)
    for into, runs in zip(lists, each, strict=True):
        width = runs.stop - runs.start
        row = np.repeat(np.arange(rows), np.diff(runs.offsets))
        before = np.cumsum(width) - width
        first = row * most + before - before[runs.offsets[row]]
        if width.sum() < FEW_EACH * width.size:
            run = np.repeat(np.arange(width.size), width)
            within = np.arange(run.size) - before[run]
            into[first[run] + within] = within + runs.start[run]
            continue
        every = np.arange(columns, dtype=np.int32)
        for at, start, stop in zip(first.tolist(), runs.start.tolist(), runs.stop.tolist(),
                                   strict=True):  # fmt: skip
            into[at : at + stop - start] = every[start:stop]
    return most, lists
