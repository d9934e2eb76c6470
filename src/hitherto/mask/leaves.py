"""Each mask of its own as spans on a grid, without visiting cells.

A builder works in the mask's own positions: rows `[q0, q1)`, keys `[k0, k1)`. It may write spans
beyond the keys (they are clipped), and a mask of a single span may be inverted on some rows (it is
empty there). It returns None when rows would take too many spans: then `cells` are asked.
"""

from dataclasses import dataclass

import numpy as np

from hitherto.mask import spans as limits
from hitherto.mask.data import Keys, Predicate, Queries, Segments, Table, Timeline, Tree
from hitherto.mask.evaluate import require_within
from hitherto.mask.expression import Mask
from hitherto.mask.positions import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Everything,
    Nothing,
    Prefix,
    RandomBlocks,
    Strided,
    Window,
)
from hitherto.mask.random import drawn_blocks
from hitherto.mask.spans import Array, union

Ends = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs in a mask's own positions: first rows, spans in each, and the spans' ends."""

    starts: Array
    counts: Array
    ends: Ends


def runs_of(mask: Mask, q0: int, q1: int, k0: int, k1: int, ahead: tuple[int, int]) -> Runs | None:
    """Return the mask's runs on rows `[q0, q1)` and keys `[k0, k1)`, or None: ask its cells.

    `ahead` bounds `k - q` (first, after the last) where the mask matters.
    """
    match mask:
        case Everything() | Strided(step=1):
            return _one_run(q0, (k0, 0, k1, 0))
        case Nothing():
            return _one_run(q0)
        case Causal() | BlockCausal(size=1):
            return _one_run(q0, (k0, 0, 1, 1))
        case Window(width=width) | Dilated(width=width, step=1):
            return _one_run(q0, (1 - width, 1, 1, 1))
        case Chunks(size=1):
            return _one_run(q0, (0, 1, 1, 1))
        case Band(before=before, after=after):
            start = (k0, 0) if before is None else (-before, 1)
            return _one_run(q0, (*start, *((k1, 0) if after is None else (after + 1, 1))))
        case Prefix(length=length):
            return _one_run(q0, (k0, 0, length, 0))
        case Chunks(size=size, start=start):
            chunk = np.arange((q0 - start) // size, (q1 - 1 - start) // size + 1) * size + start
            return _steps(np.maximum(chunk, q0), chunk, chunk + size)
        case BlockCausal(size=size):
            block = np.arange(q0 // size, (q1 - 1) // size + 1) * size
            return _steps(np.maximum(block, q0), np.full(block.size, k0), block + size)
        case Dilated(width=width, step=step):
            reach = min(width, (q1 - 1 - k0) // step + 1)
            return _diagonals(q0, np.arange(1 - reach, 1) * step, limits.MAX_SPANS)
        case Strided(step=step):
            offsets = np.arange(-(-ahead[0] // step), -(-ahead[1] // step)) * step
            return _diagonals(q0, offsets, 2 * limits.MAX_SPANS)
        case RandomBlocks():
            return _random(mask, q0, q1)
        case Queries(where=where):
            return _queries(where, q0, q1, k0, k1)
        case Keys(where=where):
            return _one_run(q0, *((x, 0, y, 0) for x, y in _ranges("Keys", where, k0, k1)))
        case Segments(ids=ids, k_ids=k_ids):
            return _segments(ids, ids if k_ids is None else k_ids, q0, q1, k0, k1)
        case Timeline(q_time=q_time, k_time=k_time, lookahead=lookahead):
            _cover("Timeline.q_time", q_time.size, q0, q1)
            _cover("Timeline.k_time", k_time.size, k0, k1)
            return _timeline(q_time[q0:q1] + lookahead, k_time[k0:k1], q0, k0)
        case Tree(parents=parents, start=start):
            return _tree(parents, start, q0, q1, k0, k1)
        case Table(array=array):
            _cover("Table.array queries", array.shape[0], q0, q1)
            _cover("Table.array keys", array.shape[1], k0, k1)
    return None


def may_need_cells(mask: Mask) -> bool:
    """Tell whether a mask of its own may have no runs, so that its cells must be asked."""
    return isinstance(mask, (Table, Predicate, Timeline, Strided, Dilated))


def _cover(argument: str, length: int, start: int, stop: int) -> None:
    if stop > start:
        require_within(argument, length, np.array([start, stop - 1]))


def _one_run(q0: int, *ends: tuple[int, int, int, int]) -> Runs | None:
    if len(ends) > limits.MAX_SPANS * 8:
        return None
    table = np.array(ends, np.int64).reshape(-1, 4)
    return Runs(np.array([q0]), np.array([len(ends)]), tuple(table.T))  # type: ignore[arg-type]


def _still(lo: Array, hi: Array) -> Ends:
    return lo, np.zeros_like(lo), hi, np.zeros_like(hi)


def _steps(starts: Array, lo: Array, hi: Array) -> Runs:
    """One still span a run."""
    return Runs(starts, np.ones(starts.size, np.int64), _still(lo, hi))


def _diagonals(q0: int, offsets: Array, most: int) -> Runs | None:
    if offsets.size > most:
        return None
    one = np.ones_like(offsets)
    return Runs(np.array([q0]), np.array([offsets.size]), (offsets, one, offsets + 1, one))


def _random(mask: RandomBlocks, q0: int, q1: int) -> Runs:
    block = np.arange(q0 // mask.block, (q1 - 1) // mask.block + 1)
    draws = np.sort(drawn_blocks(mask, block), axis=1)
    real = draws >= 0
    lo = draws[real] * mask.block
    return Runs(np.maximum(block * mask.block, q0), real.sum(1), _still(lo, lo + mask.block))


def _ranges(name: str, where: Array | tuple, start: int, stop: int) -> Array:
    """Return the ranges of `where` that meet `[start, stop)`, as (n, 2)."""
    if isinstance(where, np.ndarray):
        _cover(f"{name}.where", where.size, start, stop)
        flips = np.flatnonzero(np.diff(where[start:stop].astype(np.int8), prepend=0, append=0))
        return flips.reshape(-1, 2) + start
    met = [(x, y) for x, y in where if x < stop and y > start]
    return np.array(met, np.int64).reshape(-1, 2)


def _queries(where: Array | tuple, q0: int, q1: int, k0: int, k1: int) -> Runs:
    chosen = np.clip(_ranges("Queries", where, q0, q1), q0, q1)
    starts = union(np.array([q0]), chosen[chosen < q1])
    inside = (np.searchsorted(chosen.ravel(), starts, "right") % 2).astype(np.int64)
    n = int(inside.sum())
    return Runs(starts, inside, _still(np.full(n, k0), np.full(n, k1)))


def _pieces(values: Array) -> Array:
    """Return where runs of equal values begin."""
    return (
        np.flatnonzero(np.append(True, values[1:] != values[:-1])) if values.size else np.array([])
    )


def _segments(ids: Array, k_ids: Array, q0: int, q1: int, k0: int, k1: int) -> Runs | None:
    _cover("Segments.ids", ids.size, q0, q1)
    _cover("Segments.k_ids", k_ids.size, k0, k1)
    q_piece, k_piece = _pieces(ids[q0:q1]), _pieces(k_ids[k0:k1]).astype(np.int64)
    k_stop = np.append(k_piece[1:], k1 - k0)[: k_piece.size]
    k_id = k_ids[k0:k1][k_piece]
    order = np.argsort(k_id, kind="stable")
    order = order[k_id[order] >= 0]
    q_id = ids[q0:q1][q_piece]
    first = np.searchsorted(k_id[order], q_id, "left")
    counts = np.searchsorted(k_id[order], q_id, "right") - first
    if counts.sum() > limits.MAX_SPANS * (counts.size + k_piece.size):
        return None
    offsets = np.append(first, order.size)
    run = np.repeat(np.arange(counts.size), counts)
    entry = np.arange(run.size) + np.repeat(offsets[:-1] - (np.cumsum(counts) - counts), counts)
    span = order[entry]
    return Runs(q_piece + q0, counts, _still(k_piece[span] + k0, k_stop[span] + k0))


def _timeline(by: Array, k_time: Array, q0: int, k0: int) -> Runs | None:
    """Cut the keys into pieces of rising time; a row sees the front of each piece."""
    piece = np.flatnonzero(np.append(True, k_time[1:] < k_time[:-1])) if k_time.size else []
    if len(piece) > limits.MAX_SPANS:
        return None
    stop = np.append(piece[1:], k_time.size).astype(np.int64)
    seen = np.stack(
        [x + np.searchsorted(k_time[x:y], by, "right") for x, y in zip(piece, stop, strict=True)], 1
    ) if len(piece) else np.zeros((by.size, 0), np.int64)  # fmt: skip
    row = np.flatnonzero(np.append(True, (seen[1:] != seen[:-1]).any(1)))
    lo, hi = np.broadcast_to(piece, seen[row].shape), seen[row]
    some = hi > lo
    return Runs(row + q0, some.sum(1), _still((lo[some] + k0).astype(np.int64), hi[some] + k0))


def _tree(parents: Array, start: int, q0: int, q1: int, k0: int, k1: int) -> Runs:
    stop = start + parents.size
    _cover("Tree.parents (query)", stop, max(q0, 0), q1)
    _cover("Tree.parents (key)", stop, max(k0, 0), k1)
    rows = np.arange(max(q0, start), q1)
    pairs, node = [], rows - start
    row = np.arange(rows.size)
    while row.size:
        pairs.append((row, node))
        above = parents[node]
        row, node = row[above >= 0], above[above >= 0]
    row, node = (np.concatenate(p) for p in zip(*pairs, strict=True)) if pairs else (row, row)
    order = np.lexsort((node, row))
    row, key = row[order], node[order] + start
    text = 1 if start > k0 else 0
    first = q0 < start
    starts = np.append([q0], rows) if first else rows
    counts = np.bincount(row, minlength=rows.size) + text
    counts = np.append([text], counts) if first else counts
    slot = np.repeat(np.arange(starts.size), counts)
    is_text = np.append(True, slot[1:] != slot[:-1])[: slot.size] & bool(text)
    lo, hi = np.full(slot.size, k0), np.full(slot.size, start)
    lo[~is_text], hi[~is_text] = key, key + 1
    return Runs(starts, counts, _still(lo, hi))
