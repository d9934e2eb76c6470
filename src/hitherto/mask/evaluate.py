"""The meaning of every mask, executable. All else in the library is tested against this file."""

from collections.abc import Callable

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.data import (
    Keys,
    Predicate,
    Queries,
    Ranges,
    Segments,
    Table,
    Timeline,
    Tree,
)
from hitherto.mask.expression import And, Mask, Minus, Not, Or, Shift, Xor, axes, select
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


def evaluate(mask: Mask, q_pos: np.ndarray, k_pos: np.ndarray) -> np.ndarray:
    """Decide every pair of two lists of positions.

    Args:
        mask: any mask.
        q_pos: 1-D ints, absolute positions of the queries, any order.
        k_pos: 1-D ints, absolute positions of the keys, any order.
    Returns:
        bool (queries, keys), True = may attend; (batch, heads, queries, keys) when the mask has a
        batch or a head axis, either of size 1 where it has not.
    Raises:
        MaskError: a position beyond the mask's data. Fix: give the mask data for every position.
    Cost: O(queries * keys): the definition, not a way to run attention.
    """
    q, k = _positions("q_pos", q_pos), _positions("k_pos", k_pos)
    batch, heads = axes(mask)
    if batch is None and heads is None:
        return cells(mask, q, k)
    grid = np.empty((batch or 1, heads or 1, q.size, k.size), bool)
    for b, h in np.ndindex(grid.shape[:2]):
        grid[b, h] = cells(select(mask, b, h), q, k)
    return grid


def cells(mask: Mask, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Evaluate a mask without axes on 1-D int64 positions: bool (queries, keys)."""
    match mask:
        case And(left=a, right=b):
            return cells(a, q, k) & cells(b, q, k)
        case Or(left=a, right=b):
            return cells(a, q, k) | cells(b, q, k)
        case Xor(left=a, right=b):
            return cells(a, q, k) ^ cells(b, q, k)
        case Minus(left=a, right=b):
            return cells(a, q, k) & ~cells(b, q, k)
        case Not(mask=a):
            return ~cells(a, q, k)
        case Shift(mask=a, q=dq, k=dk):
            return cells(a, q - dq, k - dk)
    decided = _leaf(mask, q[:, None], k[None, :])
    return np.broadcast_to(decided, (q.size, k.size))


def _leaf(mask: Mask, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    match mask:
        case Everything():
            return np.True_
        case Nothing():
            return np.False_
        case Causal():
            return k <= q
        case Window(width=width):
            return (q - k >= 0) & (q - k < width)
        case Band(before=before, after=after):
            reach_back = np.True_ if before is None else q - before <= k
            return reach_back if after is None else reach_back & (k <= q + after)
        case Prefix(length=length):
            return k < length
        case Chunks(size=size, start=start):
            return (q - start) // size == (k - start) // size
        case BlockCausal(size=size):
            return k // size <= q // size
        case Dilated(width=width, step=step):
            back = q - k
            return (back >= 0) & (back % step == 0) & (back // step < width)
        case Strided(step=step):
            return (q - k) % step == 0
        case RandomBlocks(block=block):
            draws = drawn_blocks(mask, q[:, 0] // block)
            return (draws[:, :, None] == k[0] // block).any(1) & (k >= 0)
        case _:
            return _data_leaf(mask, q, k)


def _data_leaf(mask: Mask, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    match mask:
        case Segments(ids=ids, k_ids=k_ids):
            q_id = _take("Segments.ids", ids, q)
            return (q_id == _take("Segments.k_ids", ids if k_ids is None else k_ids, k)) & (
                q_id >= 0
            )
        case Queries(where=where):
            return _among("Queries.where", where, q)
        case Keys(where=where):
            return _among("Keys.where", where, k)
        case Timeline(q_time=q_time, k_time=k_time, lookahead=lookahead):
            by = _take("Timeline.q_time", q_time, q) + lookahead
            return _take("Timeline.k_time", k_time, k) <= by
        case Tree(parents=parents, start=start):
            return _tree(parents, start, q, k)
        case Table(array=array):
            require_within("Table.array queries", len(array), q)
            require_within("Table.array keys", array.shape[1], k)
            return array[q, k]
        case Predicate(function=function, name=name):
            return call(function, name, q, k)
        case _:
            raise MaskError(
                explain("mask", "must be one of hitherto's masks", type(mask).__name__,
                        "wrap your own rule in Predicate(function, name)")
            )  # fmt: skip


def _tree(parents: np.ndarray, start: int, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    for argument, position in (("Tree.parents (query)", q), ("Tree.parents (key)", k)):
        require_within(argument, start + parents.size, np.maximum(position, 0))
    node, target = np.broadcast_to(q - start, np.broadcast_shapes(q.shape, k.shape)), k - start
    visible = np.broadcast_to(target < 0, node.shape).copy()
    while (node >= 0).any():
        visible |= (node == target) & (node >= 0)
        node = np.where(node >= 0, parents[np.maximum(node, 0)], -1)
    return visible


def call(function: Callable, name: str, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Ask a predicate, and check what it answers."""
    answer = np.asarray(function(q, k))
    shape = (q.shape[0], k.shape[1])
    try:
        grid = np.broadcast_to(answer, shape)
    except ValueError:
        grid = None
    if grid is None or answer.dtype != bool:
        raise MaskError(
            explain(f"Predicate {name}", f"must return bools that broadcast to {shape}",
                    f"{answer.dtype} of shape {answer.shape}", "compare q and k elementwise")
        )  # fmt: skip
    return grid


def _among(argument: str, where: np.ndarray | Ranges, position: np.ndarray) -> np.ndarray:
    if isinstance(where, np.ndarray):
        return _take(argument, where, position)
    inside = np.zeros(position.shape, bool)
    for start, stop in where:
        inside |= (start <= position) & (position < stop)
    return inside


def _take(argument: str, data: np.ndarray, position: np.ndarray) -> np.ndarray:
    require_within(argument, data.size, position)
    return data[position]


def require_within(argument: str, length: int, position: np.ndarray) -> None:
    """Raise when any position lies outside `[0, length)`."""
    if position.size and (position.min() < 0 or position.max() >= length):
        worst = int(position.min()) if position.min() < 0 else int(position.max())
        raise MaskError(
            explain(argument, f"must cover every position asked for; it has 0..{length - 1}",
                    f"position {worst}", "give data for every position, or a shorter grid")
        )  # fmt: skip


def _positions(argument: str, value: np.ndarray) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise MaskError(
            explain(argument, "must be a 1-D array of int positions",
                    f"{array.dtype} of shape {array.shape}", "use np.arange(start, stop)")
        )  # fmt: skip
    return array.astype(np.int64)
