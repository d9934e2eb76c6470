"""Masks that carry data: ids, ranges, times, parents, tables, functions.

Arrays are copied and made read-only. Where an array has one row for each position, a second axis in
front is the batch. Positions beyond the data are an error, never a guess.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.expression import FARTHEST, Axes, Mask, _Leaf, node, require_int

Ranges = tuple[tuple[int, int], ...]

MOST_POSITIONS = 1 << 30
"""Positions that ids written as lengths may describe; each takes 8 bytes."""

MOST_STEPS = 1 << 20
"""Positions that a range with a step may name; each becomes a range of its own."""


@node
class Segments(_Leaf):
    """Query and key belong to the same segment.

    Meaning: `ids[q] == k_ids[k] >= 0`; -1 belongs to nothing. Packed documents are
    `Causal() & Segments(ids)`; image blocks are `Causal() | Segments(image_ids)`.

    Args:
        ids: ints >= -1, shape (positions,) or (batch, positions).
        k_ids: the keys' ids, for cross-attention; `ids` unless given.
    """

    ids: np.ndarray
    k_ids: np.ndarray | None = None

    def __post_init__(self) -> None:
        _store(self, "ids", _ids("Segments.ids", self.ids))
        if self.k_ids is not None:
            _store(self, "k_ids", _ids("Segments.k_ids", self.k_ids))
            _same_batch("Segments.k_ids", self.ids, self.k_ids)

    @classmethod
    def from_lengths(cls, lengths: Sequence[int]) -> "Segments":
        """Documents laid end to end; `lengths` are their sizes in positions, each >= 0."""
        sizes = _whole("Segments.from_lengths(lengths)", lengths)
        total = float(sizes.sum(dtype=np.float64))
        if sizes.ndim != 1 or sizes.size == 0 or sizes.min() < 0 or total > MOST_POSITIONS:
            raise MaskError(
                explain(
                    "Segments.from_lengths(lengths)",
                    f"must be ints >= 0, one a document, at most {MOST_POSITIONS:,} in all",
                    lengths,
                    "for a batch pass Segments(ids) with ids of shape (batch, positions)",
                )
            )
        return cls(np.repeat(np.arange(sizes.size), sizes))

    @classmethod
    def padded(
        cls, lengths: Sequence[int], side: str = "right", width: int | None = None
    ) -> "Segments":
        """A batch of sequences padded to one width; pads see nothing and are seen by nothing.

        Args:
            lengths: real positions of each batch row, >= 0.
            side: where the pads stand, "right" or "left".
            width: positions in a row, pads included; the longest length unless given.
        """
        sizes = _whole("Segments.padded(lengths)", lengths)
        total = int(sizes.max(initial=0)) if width is None else width
        require_int("Segments.padded(width)", total, 0)
        if (
            sizes.ndim != 1
            or sizes.size == 0
            or sizes.min() < 0
            or (sizes.max() > total or total * sizes.size > MOST_POSITIONS)
        ):
            raise MaskError(
                explain(
                    "Segments.padded(lengths)",
                    f"must be a list of ints from 0 to the width {total}, one a batch row",
                    lengths,
                    "count the real tokens of each row",
                )
            )
        if side not in ("left", "right"):
            raise MaskError(
                explain("Segments.padded(side)", "must be 'left' or 'right'", side, "name the side")
            )
        slots = np.arange(total)
        real = slots < sizes[:, None] if side == "right" else slots >= total - sizes[:, None]
        return cls(np.where(real, 0, -1))

    def _axes(self) -> Axes:
        return _batch_size(self.ids, self.k_ids), None

    def _select(self, batch: int, head: int) -> "Mask":
        k_ids = None if self.k_ids is None else _row(self.k_ids, batch)
        return Segments(_row(self.ids, batch), k_ids)


class _Where(_Leaf):
    """Shared by Queries and Keys: positions given as ranges or one bool a position."""

    where: Any

    def __post_init__(self) -> None:
        _store(self, "where", _where(f"{type(self).__name__}.where", self.where))

    def _axes(self) -> Axes:
        return (_batch_size(self.where) if isinstance(self.where, np.ndarray) else None), None

    def _select(self, batch: int, head: int) -> "Mask":
        if isinstance(self.where, np.ndarray):
            return type(self)(_row(self.where, batch))  # type: ignore[call-arg]
        return self


@node
class Queries(_Where):
    """The query is one of these; its keys are all visible.

    Args:
        where: a range, a list of ranges, or bools of shape (positions,) or (batch, positions).
    """

    where: Any


@node
class Keys(_Where):
    """The key is one of these, for every query. Longformer's global tokens are
    `Keys(g) | Queries(g)`.

    Args:
        where: a range, a list of ranges, or bools of shape (positions,) or (batch, positions).
    """  # noqa: D205

    where: Any


@node
class Timeline(_Leaf):
    """Video frames, audio and text on one clock: a query sees what has happened by its time.

    Meaning: `k_time[k] <= q_time[q] + lookahead`, in float64. Times need no order.

    Args:
        q_time: seconds, finite, shape (positions,) or (batch, positions).
        k_time: seconds, the same.
        lookahead: seconds a query may see ahead; may be negative (a delay).
    """

    q_time: np.ndarray
    k_time: np.ndarray
    lookahead: float = 0

    def __post_init__(self) -> None:
        _store(self, "q_time", _times("Timeline.q_time", self.q_time))
        _store(self, "k_time", _times("Timeline.k_time", self.k_time))
        _same_batch("Timeline.k_time", self.q_time, self.k_time)
        _store(self, "lookahead", _seconds("Timeline.lookahead", self.lookahead))

    def _axes(self) -> Axes:
        return _batch_size(self.q_time, self.k_time), None

    def _select(self, batch: int, head: int) -> "Mask":
        return Timeline(_row(self.q_time, batch), _row(self.k_time, batch), self.lookahead)


@node
class Tree(_Leaf):
    """Speculative drafts: a token of the tree sees the text before it, its ancestors and itself.

    Meaning: a key before `start` is visible to every query; a query `start + i` also sees
    `start + j` iff j is i or an ancestor of i. Queries before `start` see nothing of the tree.

    Args:
        parents: for each node the index of its parent inside the tree, -1 for a root; any order.
        start: position of node 0; >= 0.
    """

    parents: np.ndarray
    start: int

    def __post_init__(self) -> None:
        parents = _whole("Tree.parents", self.parents)
        n = parents.size
        if parents.ndim != 1 or n == 0 or parents.min() < -1 or parents.max() >= n:
            raise MaskError(
                explain(
                    "Tree.parents",
                    f"must be a list of node indices from -1 (a root) to {n - 1}",
                    self.parents,
                    "count nodes from 0 inside the tree",
                )
            )
        require_int("Tree.start", self.start, 0)
        _store(self, "parents", parents)
        above = parents
        for _ in range(n.bit_length() + 1):
            above = np.where(above >= 0, above[above], -1)
        if above.max() >= 0:
            raise MaskError(
                explain(
                    "Tree.parents",
                    "must not hold a cycle",
                    f"node {int(np.argmax(above >= 0))}, which is its own ancestor or below one",
                    "give every branch a root with parent -1",
                )
            )


@node
class Table(_Leaf):
    """As given: `array[q, k]`.

    Args:
        array: bools of shape (queries, keys), (batch, queries, keys) or
            (batch, heads, queries, keys).
    """

    array: np.ndarray

    def __post_init__(self) -> None:
        array = _array(self.array)
        if array.dtype != bool or array.ndim not in (2, 3, 4) or 0 in array.shape:
            raise MaskError(
                explain(
                    "Table.array",
                    "must be bools of shape ([batch, [heads,]] queries, keys), none of them 0",
                    f"{array.dtype} of shape {array.shape}",
                    "compare first, e.g. bias > -1e9; True = may attend",
                )
            )
        _store(self, "array", array)

    def _axes(self) -> Axes:
        shape = self.array.shape
        return (shape[0] if len(shape) > 2 else None), (shape[1] if len(shape) == 4 else None)

    def _select(self, batch: int, head: int) -> "Mask":
        array = self.array
        if array.ndim > 2:
            array = array[batch if len(array) > 1 else 0]
        if array.ndim > 2:
            array = array[head if len(array) > 1 else 0]
        return Table(array)


@node
class Predicate(_Leaf):
    """Opaque: any vectorised function of positions.

    Two predicates are equal iff name and function are the same. `parse` reads one back only when
    it is given it by name.

    Args:
        function: takes int64 arrays q of shape (queries, 1) and k of shape (1, keys); returns bools
            that broadcast to (queries, keys).
        name: an identifier, used in print.
    """

    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    name: str

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise MaskError(
                explain("Predicate.function", "must be callable", self.function, "pass f(q, k)")
            )
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise MaskError(
                explain("Predicate.name", "must be an identifier", self.name, "name the rule")
            )


def _store(mask: Mask, name: str, value: object) -> None:
    if isinstance(value, np.ndarray):
        value = np.array(value, order="C")
        value.flags.writeable = False
    object.__setattr__(mask, name, value)


def _array(value: object) -> np.ndarray:
    """Return an array; an empty one of objects, which every check refuses, for ragged lists."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.empty(0, object)


def _whole(argument: str, value: object) -> np.ndarray:
    """Return ints as int64; refuse bools, floats, ragged lists and what int64 cannot hold."""
    array = _array(value)
    if array.dtype.kind not in "iu" and array.size:
        raise MaskError(
            explain(argument, "must be ints", _describe(value, array), "cast to int first")
        )
    if array.size and (int(array.max()) >= 1 << 62 or int(array.min()) < -(1 << 62)):
        raise MaskError(explain(argument, "must be below 2**62", int(array.max()), "renumber them"))
    return array.astype(np.int64)


def _ids(argument: str, value: object) -> np.ndarray:
    ids = _whole(argument, value)
    if ids.ndim not in (1, 2) or ids.size == 0 or ids.min() < -1:
        raise MaskError(
            explain(
                argument,
                "must be ints >= -1 of shape (positions,) or (batch, positions), none of them 0",
                _describe(value, ids),
                "use -1 for positions that belong to nothing",
            )
        )
    return ids


def _times(argument: str, value: object) -> np.ndarray:
    try:
        times = np.asarray(value)
        times = times.astype(np.float64) if times.dtype.kind in "iuf" else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        times = np.empty(0)
    if times.ndim not in (1, 2) or times.size == 0 or not np.isfinite(times).all():
        raise MaskError(
            explain(
                argument,
                "must be finite seconds of shape (positions,) or (batch, positions)",
                _describe(value, times),
                "give every position a time; NaN and infinity are not times",
            )
        )
    return times


def _seconds(argument: str, value: object) -> float:
    try:
        seconds = float("nan" if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        seconds = float("nan")
    if not np.isfinite(seconds) or isinstance(value, str):
        raise MaskError(explain(argument, "must be finite seconds", value, "use 0"))
    return seconds


def _where(argument: str, value: Any) -> np.ndarray | Ranges:
    """Return bools as they are, ranges as sorted, disjoint, non-touching (start, stop) pairs."""
    if isinstance(value, range):
        value = [value]
    if isinstance(value, Iterable) and not hasattr(value, "dtype"):
        value = list(value)
        if all(isinstance(part, range) for part in value):
            return _merged([piece for part in value for piece in _unit_step(argument, part)])
    array = _array(value)
    if array.dtype != bool or array.ndim not in (1, 2) or array.size == 0:
        raise MaskError(
            explain(
                argument,
                "must be a range, a list of ranges, or a bool for each position",
                _describe(value, array),
                "write positions 3 and 7 as [range(3, 4), range(7, 8)]",
            )
        )
    return array


def _unit_step(argument: str, part: range) -> list[tuple[int, int]]:
    if part and max(abs(part[0]), abs(part[-1])) >= FARTHEST:
        raise MaskError(explain(argument, f"must stay below {FARTHEST}", part, "use Band or ~"))
    if part.step == 1 or not part:
        return [(part.start, part.stop)] if part else []
    if len(part) > MOST_STEPS:
        raise MaskError(
            explain(argument, f"may skip at most {MOST_STEPS:,} times in a range", part,
                    "use Strided, or a bool for each position")
        )  # fmt: skip
    return [(i, i + 1) for i in part]


def _merged(pieces: list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(pieces):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)


def _describe(value: object, array: np.ndarray) -> object:
    return f"{array.dtype} of shape {array.shape}" if hasattr(value, "dtype") else value


def _batch_size(*arrays: np.ndarray | None) -> int | None:
    sizes = [len(a) for a in arrays if a is not None and a.ndim == 2]
    return max(sizes) if sizes else None


def _same_batch(argument: str, one: np.ndarray, two: np.ndarray) -> None:
    sizes = {len(a) for a in (one, two) if a.ndim == 2} - {1}
    if len(sizes) > 1:
        raise MaskError(
            explain(argument, "must have the batch of its partner", f"{one.shape} and {two.shape}",
                    "make the batch sizes equal, or 1")
        )  # fmt: skip


def _row(array: np.ndarray, batch: int) -> np.ndarray:
    if array.ndim == 1:
        return array
    return array[batch if len(array) > 1 else 0]
