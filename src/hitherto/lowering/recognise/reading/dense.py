"""Arrays of every cell: bools, 0 and 1, additive floats; of numpy, torch, jax or lists."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.recognise.reading.grid import batch_of, by_cells, first_query, plain
from hitherto.mask import Batch, Spans

Array = np.ndarray
Polarity = Literal["attends", "hides"]

HIDDEN = -1e4
"""An additive value at or below this hides: -inf, the smallest float, and the -10000 of BERT."""

STRIP = 1 << 24
"""Cells looked at together."""


def dense(array: Any, true: Polarity = "attends", q_start: int | None = None) -> Batch:
    """Read an array of cells.

    Args:
        array: (queries, keys), (batch, queries, keys) or (batch, heads, queries, keys). Bools; ints
            0 and 1; or floats that are added to the scores, 0 or at most `HIDDEN`.
        true: what True and 1 mean; no array says so itself. Additive floats need it not.
        q_start: position of the first query; the queries are the last keys unless given.
    Raises:
        MaskError: another shape; a value that is neither.
    """
    if true not in ("attends", "hides"):
        raise MaskError(explain("true", "must be 'attends' or 'hides'", true, "read its library"))
    array = plain(array)
    array = array if hasattr(array, "shape") else np.asarray(array)
    shape = tuple(int(n) for n in array.shape)
    if len(shape) not in (2, 3, 4) or 0 in shape:
        raise MaskError(
            explain("x", "must be ([batch, [heads,]] queries, keys), none of them 0",
                    f"an array of shape {shape}", "pass Padding, CuSeqlens, ... for other forms")
        )  # fmt: skip
    q_len, k_len = shape[-2:]
    start = first_query(q_len, k_len, q_start)
    return batch_of(_axes(shape), _each(array, true, q_len, k_len, start))


def _axes(shape: tuple[int, ...]) -> tuple[int, int]:
    return (*shape[:-2], 1, 1)[:2]  # type: ignore[return-value]


def _each(array: Any, true: Polarity, q_len: int, k_len: int, start: int) -> Any:
    """Return a function that reads one batch row and head, and each part of memory only once."""
    known: dict[tuple[int, int], Spans] = {}

    def read(b: int, h: int) -> Spans:
        at = tuple(0 if _repeats(array, axis) else i for axis, i in enumerate((b, h)))
        if at not in known:
            one = array[at[: array.ndim - 2]]
            known[at] = by_cells(_strips(one, true), q_len, k_len, start)
        return known[at]

    return read


def _repeats(array: Any, axis: int) -> bool:
    """Tell whether an axis holds the same memory again and again, as one that is expanded."""
    if axis >= array.ndim - 2:
        return True
    if isinstance(array, np.ndarray):
        return array.strides[axis] == 0
    return hasattr(array, "stride") and array.stride(axis) == 0


def _strips(array: Any, true: Polarity) -> Iterator[Array]:
    q_len, k_len = array.shape
    rows = max(1, STRIP // k_len)
    for first in range(0, q_len, rows):
        yield visible(array[first : first + rows], true)


def visible(array: Any, true: Polarity) -> Array:
    """Return which of some cells may be attended to: bools, by the kind of the array."""
    if str(array.dtype) in ("torch.bfloat16", "bfloat16", "torch.float16"):
        array = array.float() if hasattr(array, "float") else array.astype(np.float32)
    cells = np.asarray(array)
    match cells.dtype.kind:
        case "b":
            return cells if true == "attends" else ~cells
        case "f":
            shown, fine = cells == 0, cells <= HIDDEN
        case "i" | "u":
            shown, fine = cells == (1 if true == "attends" else 0), (cells == 0) | (cells == 1)
        case _:
            raise MaskError(
                explain("x", "must be bools, ints 0 and 1, or additive floats",
                        f"an array of {cells.dtype}", "convert it first")
            )  # fmt: skip
    fine = fine | shown
    if not fine.all():
        _refuse(cells, ~fine)
    return shown


def _refuse(cells: Array, wrong: Array) -> None:
    at = tuple(np.argwhere(wrong)[0])
    rule, fix = "must hold 0 and 1 only", "compare first: x > 0"
    if cells.dtype.kind == "f":
        rule = f"must be 0 where a query may attend and at most {HIDDEN:g} where not"
        fix = "pass x == 0 if this is a bias besides, x.astype(bool) if it holds 0 and 1"
    raise MaskError(explain("x", rule, f"{cells[at].item()} at {tuple(map(int, at))}", fix))
