"""Spans: the normal form of a mask on a grid, exact and free of any queries x keys array.

Runs of query rows; in each, ordered disjoint spans of keys whose ends are affine in the row:

    rows [q0, q1):   keys [a + s*q, b + t*q), ...      s, t in {0, 1}

A row with more than MAX_SPANS spans is kept as bits instead: words of 64 keys, those that are not
zero. The form is canonical: equal sets of cells give equal arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hitherto.errors import MaskError, explain

MAX_SPANS = 128
"""A row with more spans than this is kept as bits."""

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Spans:
    """The visible cells of a grid: queries `q_start ..` (absolute rows) by keys `0 ..`.

    Run i covers rows `[starts[i], starts[i + 1])`, the last one to the end of the grid. Its entries
    are `offsets[i] .. offsets[i + 1]`; entry j is the span of keys `[a + s*q, b + t*q)` at row q,
    or, where `bits[i]`, the word `a` of 64 keys with the uint64 `b` (bit i is key `64*a + i`).
    """

    q_start: int
    q_len: int
    k_len: int
    starts: Array
    offsets: Array
    a: Array
    s: Array
    b: Array
    t: Array
    bits: Array

    def __post_init__(self) -> None:
        for array in self._arrays():
            array.flags.writeable = False

    @property
    def q_stop(self) -> int:
        """One past the last row."""
        return self.q_start + self.q_len

    @property
    def stops(self) -> Array:
        """One past the last row of each run."""
        return np.append(self.starts[1:], self.q_stop) if self.starts.size else self.starts

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and keys."""
        return self.q_len, self.k_len

    @property
    def grid(self) -> tuple[int, int, int]:
        """First query, queries and keys."""
        return self.q_start, self.q_len, self.k_len

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> tuple[Array, ...]:
        return self.starts, self.offsets, self.a, self.s, self.b, self.t, self.bits

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spans):
            return NotImplemented
        return self.grid == other.grid and all(
            np.array_equal(x, y) for x, y in zip(self._arrays(), other._arrays(), strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.grid, *(x.tobytes() for x in self._arrays())))

    def __and__(self, other: "Spans") -> "Spans":
        return self._combined(other, "and")

    def __or__(self, other: "Spans") -> "Spans":
        return self._combined(other, "or")

    def __xor__(self, other: "Spans") -> "Spans":
        return self._combined(other, "xor")

    def __sub__(self, other: "Spans") -> "Spans":
        return self._combined(other, "minus")

    def __invert__(self) -> "Spans":
        return full(*self.grid) - self

    def _combined(self, other: "Spans", op: str) -> "Spans":
        from hitherto.mask.algebra import combine
        from hitherto.mask.canonical import canonical

        return canonical(combine(self, other, op))

    def __repr__(self) -> str:
        return (
            f"Spans({self.q_len} queries from {self.q_start} x {self.k_len} keys: "
            f"{self.starts.size} runs, {self.a.size} entries)"
        )

    def dense(self) -> Array:
        """Return the grid as bool (queries, keys). O(queries * keys): for tiles and tests."""
        grid = np.zeros(self.shape, bool)
        for i, (q0, q1) in enumerate(zip(self.starts, self.stops, strict=True)):
            entries = slice(self.offsets[i], self.offsets[i + 1])
            block = grid[q0 - self.q_start : q1 - self.q_start]
            if self.bits[i]:
                words = np.ascontiguousarray(self.b[entries]).view(np.uint8).reshape(-1, 8)
                cells = np.unpackbits(words, axis=1, bitorder="little").astype(bool)
                keys = self.a[entries, None] * 64 + np.arange(64)
                block[:, keys[cells]] = True
                continue
            rows, key = np.arange(q0, q1)[:, None], np.arange(self.k_len)
            for j in range(entries.start, entries.stop):
                block |= (self.a[j] + self.s[j] * rows <= key) & (
                    key < self.b[j] + self.t[j] * rows
                )
        return grid

    def rows(self, q0: int, q1: int) -> "Spans":
        """Return the spans of the absolute rows `[q0, q1)`, by the same keys.

        Raises:
            MaskError: when the rows are not on the grid.
        """
        if not self.q_start <= q0 <= q1 <= self.q_stop:
            raise MaskError(
                explain("rows", f"must lie in [{self.q_start}, {self.q_stop}]", f"[{q0}, {q1})",
                        "bind a larger grid")
            )  # fmt: skip
        from hitherto.mask.canonical import canonical

        first = max(int(np.searchsorted(self.starts, q0, "right")) - 1, 0)
        last = int(np.searchsorted(self.starts, q1, "left"))
        starts = np.maximum(self.starts[first:last], q0)
        offsets = self.offsets[first : last + 1]
        entries = slice(offsets[0], offsets[-1]) if q1 > q0 else slice(0, 0)
        return canonical(
            Spans(
                q0,
                q1 - q0,
                self.k_len,
                starts if q1 > q0 else starts[:0],
                offsets - offsets[0] if q1 > q0 else np.zeros(1, np.int64),
                *(x[entries] for x in (self.a, self.s, self.b, self.t)),
                self.bits[first:last] if q1 > q0 else self.bits[:0],
            )
        )

    def compact(self, ranges: Sequence[tuple[int, int]] | Array) -> "Spans":
        """Keep only some keys and number them from 0, as a cache does that forgot the others.

        Args:
            ranges: ordered, disjoint key ranges `[start, stop)` inside the grid.
        """
        from hitherto.mask.algebra import combine
        from hitherto.mask.canonical import canonical

        table = np.array(list(ranges), np.int64).reshape(-1, 2)
        apart = table[1:, 0] > table[:-1, 1]
        edge = np.ones(min(len(table), 1), bool)
        first, stop = table[np.append(edge, apart), 0], table[np.append(apart, edge), 1]
        sizes = stop - first
        piece = combine(self, columns(*self.grid, np.stack([first, stop], 1)), "and")
        piece = canonical(piece, keep_spans=True)
        # Keys between ranges are hidden, so a span stays in one as the row moves.
        run = np.repeat(np.arange(piece.starts.size), np.diff(piece.offsets))
        lo = piece.a + piece.s * piece.starts[run]
        at = np.searchsorted(first, lo, "right") - 1
        by, total = (np.cumsum(sizes) - sizes - first)[at], int(sizes.sum())
        # Spans of neighbouring ranges may touch now, which `combine` joins.
        whole = full(self.q_start, self.q_len, total)
        return canonical(combine(shifted(piece, by, total), whole, "and"))


def one_run(
    q_start: int, q_len: int, k_len: int, ends: Sequence[tuple[int, int, int, int]]
) -> Spans:
    """Return a grid of one run; `ends` holds (a, s, b, t) of each span."""
    columns_of = np.array(list(ends), np.int64).reshape(-1, 4)
    runs = 1 if q_len else 0
    if not runs:
        columns_of = columns_of[:0]
    return Spans(
        q_start, q_len, k_len,
        np.full(runs, q_start, np.int64),
        np.arange(runs + 1, dtype=np.int64) * len(columns_of),
        *(np.ascontiguousarray(c) for c in columns_of.T),
        np.zeros(runs, bool),
    )  # fmt: skip


def full(q_start: int, q_len: int, k_len: int) -> Spans:
    """Return the grid with every cell visible."""
    return columns(q_start, q_len, k_len, [(0, k_len)] if k_len else [])


def nothing(q_start: int, q_len: int, k_len: int) -> Spans:
    """Return the grid with no cell visible."""
    return one_run(q_start, q_len, k_len, [])


def columns(
    q_start: int, q_len: int, k_len: int, ranges: Sequence[tuple[int, int]] | Array
) -> Spans:
    """Return the grid where the same key ranges are visible to every row."""
    return one_run(q_start, q_len, k_len, [(int(x), 0, int(y), 0) for x, y in ranges])


def shifted(spans: Spans, by: int | Array, k_len: int) -> Spans:
    """Move every span by some keys (of its own, or of all), to `k_len` keys. Takes no bits."""
    return Spans(
        spans.q_start, spans.q_len, k_len, spans.starts, spans.offsets,
        spans.a + by, spans.s, spans.b + by, spans.t, spans.bits,
    )  # fmt: skip


def well_formed(spans: Spans) -> bool:
    """Tell whether all spans lie on the grid, are not empty, and are ordered with gaps between."""
    run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    rows = np.stack([spans.starts, spans.stops - 1])[:, run]
    lo, hi = spans.a + spans.s * rows, spans.b + spans.t * rows
    fine = (lo >= 0).all(0) & (lo < hi).all(0) & (hi <= spans.k_len).all(0)
    gap = (hi[:, :-1] < lo[:, 1:]).all(0) | (run[:-1] != run[1:])
    words = spans.bits[run]
    return bool((fine | words).all() and (gap | words[1:]).all())


def ragged(offsets: Array, index: Array) -> tuple[Array, Array]:
    """Gather groups of entries: (entry, group) where group i is `offsets[index[i]] ..`."""
    first, counts = offsets[index], offsets[index + 1] - offsets[index]
    group = np.repeat(np.arange(index.size), counts)
    before = np.cumsum(counts) - counts
    return np.arange(group.size) + np.repeat(first - before, counts), group


def offsets_of(group: Array, groups: int) -> Array:
    """Return where each group's entries begin, and the end; `group` is ascending."""
    offsets = np.zeros(groups + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=groups), out=offsets[1:])
    return offsets


def union(one: Array, two: Array) -> Array:
    """Return the values of both arrays, ascending, each once."""
    values = np.concatenate([one, two])
    values.sort(kind="stable")
    new = np.ones(values.size, bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def interleave(parts: list[Spans]) -> Spans:
    """Join grids that hold different runs of the same rows."""
    first = parts[0]
    starts = np.concatenate([p.starts for p in parts])
    order = np.argsort(starts, kind="stable")
    ends = np.cumsum([0] + [p.a.size for p in parts])
    offsets = np.concatenate([p.offsets[:-1] + end for p, end in zip(parts, ends, strict=False)])
    counts = np.concatenate([np.diff(p.offsets) for p in parts])[order]
    group = np.repeat(np.arange(order.size), counts)
    before = np.cumsum(counts) - counts
    entry = np.arange(group.size) + np.repeat(offsets[order] - before, counts)
    columns = [np.concatenate([getattr(p, name) for p in parts])[entry] for name in "asbt"]
    bits = np.concatenate([p.bits for p in parts])[order]
    return Spans(
        *first.grid, starts[order], np.append(0, np.cumsum(counts)),
        *columns, bits,
    )  # fmt: skip
