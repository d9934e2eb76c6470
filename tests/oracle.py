"""The plain meaning of every mask, one pair at a time, in Python ints and lists.

Written from the design's table, not from the code: it reads the public fields of the mask values
and imports nothing that evaluates, binds or asks. Slow on purpose. The second half answers every
question by looking at all cells of a dense grid.
"""

from collections.abc import Sequence

import numpy as np

from hitherto.mask import (
    And,
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Everything,
    Keys,
    Mask,
    Minus,
    Not,
    Nothing,
    Or,
    PerHead,
    Predicate,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Shift,
    Strided,
    Table,
    Timeline,
    Tree,
    Window,
    Xor,
)

WORD = 64
_U64 = 2**64


def visible(mask: Mask, q: int, k: int, batch: int = 0, head: int = 0) -> bool:
    """May the query at position q attend to the key at position k?"""

    def also(part: Mask) -> bool:
        return visible(part, q, k, batch, head)

    match mask:
        case Everything():
            return True
        case Nothing():
            return False
        case Causal():
            return k <= q
        case Window(width=width):
            return q - k in range(width)
        case Band(before=before, after=after):
            return (before is None or k >= q - before) and (after is None or k <= q + after)
        case Prefix(length=length):
            return k < length
        case Chunks(size=size, start=start):
            return (q - start) // size == (k - start) // size
        case BlockCausal(size=size):
            return k // size <= q // size
        case Segments(ids=ids, k_ids=k_ids):
            mine = at(row_of(ids, batch), q)
            theirs = at(row_of(ids if k_ids is None else k_ids, batch), k)
            return mine == theirs and mine >= 0
        case Queries(where=where):
            return listed(where, q, batch)
        case Keys(where=where):
            return listed(where, k, batch)
        case Timeline(q_time=q_time, k_time=k_time, lookahead=lookahead):
            return at(row_of(k_time, batch), k) <= at(row_of(q_time, batch), q) + lookahead
        case Dilated(width=width, step=step):
            return q - k in [i * step for i in range(width)]
        case Strided(step=step):
            return (q - k) % step == 0
        case RandomBlocks(block=block, count=count, seed=seed):
            return q >= 0 and k >= 0 and k // block in drawn_blocks(q // block, count, seed)
        case Tree(parents=parents, start=start):
            return in_tree(parents.tolist(), start, q, k)
        case Table(array=array):
            return bool(table_of(array, batch, head)[q, k])
        case Predicate(function=function):
            return bool(np.asarray(function(np.array([[q]]), np.array([[k]]))).item())
        case Shift(mask=inner, q=dq, k=dk):
            return visible(inner, q - dq, k - dk, batch, head)
        case PerHead(masks=masks):
            return also(masks[head if len(masks) > 1 else 0])
        case And(left=left, right=right):
            return also(left) and also(right)
        case Or(left=left, right=right):
            return also(left) or also(right)
        case Xor(left=left, right=right):
            return also(left) != also(right)
        case Minus(left=left, right=right):
            return also(left) and not also(right)
        case Not(mask=inner):
            return not also(inner)
    raise AssertionError(f"the oracle does not know {type(mask).__name__}")


def grid(
    mask: Mask, q_pos: Sequence[int], k_pos: Sequence[int], batch: int = 0, head: int = 0
) -> list[list[bool]]:
    """Every pair of one batch row and one head."""
    return [[visible(mask, int(q), int(k), batch, head) for k in k_pos] for q in q_pos]


def row_of(data: np.ndarray, batch: int) -> list:
    """Return the values of one batch row, as a plain list."""
    rows = data.tolist()
    return rows if data.ndim == 1 else rows[batch if len(rows) > 1 else 0]


def at(values: list, position: int) -> float:
    """Read a position; Python's negative indices and guesses beyond the data are faults."""
    assert 0 <= position < len(values), f"position {position} lies outside the data"
    return values[position]


def listed(where: np.ndarray | tuple, position: int, batch: int) -> bool:
    """Is the position in `where`: (start, stop) ranges, or a bool for each position?"""
    if isinstance(where, np.ndarray):
        return bool(at(row_of(where, batch), position))
    return any(start <= position < stop for start, stop in where)


def table_of(array: np.ndarray, batch: int, head: int) -> np.ndarray:
    """Return one (queries, keys) table of an array that may have batch and head axes."""
    if array.ndim > 2:
        array = array[batch if len(array) > 1 else 0]
    if array.ndim > 2:
        array = array[head if len(array) > 1 else 0]
    return array


def in_tree(parents: list[int], start: int, q: int, k: int) -> bool:
    """Before the tree: visible. Inside: k is q or one of its ancestors."""
    if k < start:
        return True
    node = q - start
    while node >= 0:
        if node == k - start:
            return True
        node = parents[node]
    return False


def drawn_blocks(n: int, count: int, seed: int) -> set[int]:
    """Floyd's draw of `count` of the blocks 0..n, by splitmix64 of (seed, n, i)."""
    if count > n:
        return set(range(n + 1))
    drawn: set[int] = set()
    for i in range(count):
        j = n + 1 - count + i
        t = _mixed(seed, n, i) % (j + 1)
        drawn.add(j if t in drawn else t)
    return drawn


def _mixed(seed: int, n: int, i: int) -> int:
    z = seed * 0x9E3779B97F4A7C15 + n * 0xC2B2AE3D27D4EB4F + i * 0x165667B19E3779F9
    z %= _U64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % _U64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % _U64
    return z ^ (z >> 31)


# Questions, answered by looking at every cell of a dense (queries, keys) grid.

Run = tuple[int, list[tuple[int, int, int, int]], bool]


def ranges(cells: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the maximal (start, stop) stretches of true cells."""
    found: list[tuple[int, int]] = []
    for i, cell in enumerate(cells):
        if cell and found and found[-1][1] == i:
            found[-1] = (found[-1][0], i + 1)
        elif cell:
            found.append((i, i + 1))
    return found


def words(cells: Sequence[bool]) -> list[tuple[int, int]]:
    """Return (word index, 64-bit word read as int64) of every word that is not zero."""
    packed: dict[int, int] = {}
    for k, cell in enumerate(cells):
        if cell:
            packed[k // WORD] = packed.get(k // WORD, 0) | 1 << k % WORD
    return [(index, word - _U64 if word >= _U64 // 2 else word) for index, word in packed.items()]


def normal_form(dense: np.ndarray, q_start: int, max_spans: int) -> list[Run]:
    """Cut the rows into runs greedily, as the design says.

    Each run is (first row, [(a, s, b, t) ...], bits): the keys [a + s*q, b + t*q), q absolute.
    A run of bits has (word index, 0, word, 0) instead, and all its rows are alike.
    """
    runs: list[tuple[int, list, bool]] = []
    first: list[tuple[int, int]] = []
    for q, cells in enumerate(dense.tolist(), start=q_start):
        spans = ranges(cells)
        bits = len(spans) > max_spans
        entries = words(cells) if bits else spans
        if runs and _extend(runs[-1], first, q, entries, bits):
            continue
        runs.append((q, [[None, None] for _ in entries], bits))  # one row tells no slope
        first = entries
    return [(q, _affine(q, dense[q - q_start], slopes, bits), bits) for q, slopes, bits in runs]


def _extend(run: tuple, first: list, q: int, entries: list, bits: bool) -> bool:
    """Take row q into the run if its ends move by slope 0 or 1 all along."""
    start, slopes, run_bits = run
    if run_bits != bits or len(first) != len(entries):
        return False
    if bits:
        return first == entries
    moved = [(a - a0, b - b0) for (a, b), (a0, b0) in zip(entries, first, strict=True)]
    for known, move in zip(slopes, moved, strict=True):
        for slope, distance in zip(known, move, strict=True):
            if distance not in ((0, q - start) if slope is None else (slope * (q - start),)):
                return False
    slopes[:] = [[int(a > 0), int(b > 0)] for a, b in moved]
    return True


def _affine(q: int, cells: np.ndarray, slopes: list, bits: bool) -> list[tuple[int, int, int, int]]:
    if bits:
        return [(index, 0, word, 0) for index, word in words(cells.tolist())]
    ends = zip(ranges(cells.tolist()), slopes, strict=True)
    return [(a - (s or 0) * q, s or 0, b - (t or 0) * q, t or 0) for (a, b), (s, t) in ends]


def first_difference(one: np.ndarray, two: np.ndarray, q_start: int) -> tuple[int, int] | None:
    """Return the first cell, in row-major order, where two grids differ; q absolute."""
    for i, (left, right) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            if a != b:
                return q_start + i, k
    return None


def first_future(dense: np.ndarray, q_start: int) -> tuple[int, int] | None:
    """Return the first visible cell with k > q, in row-major order; q absolute."""
    for q, cells in enumerate(dense.tolist(), start=q_start):
        for k, cell in enumerate(cells):
            if cell and k > q:
                return q, k
    return None


def tiles(dense: np.ndarray, bq: int, bk: int) -> list[list[tuple[int, bool]]]:
    """Return, for each block of queries, (key block, full) for every key block it touches."""
    rows = []
    for top in range(0, dense.shape[0], bq):
        lines = []
        for left in range(0, dense.shape[1], bk):
            tile = dense[top : top + bq, left : left + bk]
            if tile.any():
                lines.append((left // bk, bool(tile.all())))
        rows.append(lines)
    return rows
