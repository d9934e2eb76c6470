"""How long a mask is to say: the measure by which one expression is simpler than another."""

from dataclasses import MISSING, fields

import numpy as np

from hitherto.mask import (
    And,
    Mask,
    Minus,
    Not,
    Or,
    PerHead,
    Segments,
    Shift,
    Table,
    Timeline,
    Tree,
    Xor,
)

_ORDER = (
    "Everything Nothing Causal Window Prefix Chunks BlockCausal Keys Queries Segments Strided "
    "Dilated Band RandomBlocks Tree Timeline"
).split()


def size(mask: Mask) -> int:
    """Return the length of a mask: 2 for each of its own, 1 for each operator and each number.

    A range is two numbers, and so is each stretch of one value in an array (of one slope, in
    times), but a document is one: its length. A Table counts its cells, a Tree its nodes.
    """
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b) | Xor(left=a, right=b):
            return size(a) + size(b) + 1
        case Minus(left=a, right=b):
            return size(a) + size(b) + 1
        case Not(mask=a):
            return size(a) + 1
        case Shift(mask=a, q=q, k=k):
            return size(a) + 1 + bool(q) + bool(k)
        case PerHead(masks=masks):
            return 2 + sum(map(size, masks))
        case Table(array=cells) | Tree(parents=cells):
            return 2 + cells.size
    return 2 + sum(_numbers(mask, field) for field in fields(mask))  # type: ignore[arg-type]


def parts(mask: Mask) -> int:
    """Count the masks of its own that a mask is made of."""
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b) | Minus(left=a, right=b):
            return parts(a) + parts(b)
    return 1


def preference(mask: Mask) -> tuple[int, int, bool]:
    """Sort key: the shorter first; of equal length the more usual, and `&` outside `|`."""
    return size(mask), _oddness(mask), isinstance(mask, Or)


def _oddness(mask: Mask) -> int:
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b) | Minus(left=a, right=b):
            return _oddness(a) + _oddness(b)
        case Not(mask=a) | Shift(mask=a):
            return _oddness(a) + len(_ORDER)
    name = type(mask).__name__
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _numbers(mask: Mask, field: object) -> int:
    value = getattr(mask, field.name)  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray):
        each = 1 if isinstance(mask, Segments) and mask.k_ids is None else 2
        return each * stretches(value, slopes=isinstance(mask, Timeline))
    if isinstance(value, tuple):
        return 2 * len(value)
    return int(field.default is MISSING or value != field.default)  # type: ignore[attr-defined]


def stretches(values: np.ndarray, slopes: bool = False) -> int:
    """Count the stretches of one value, or of one slope, over all rows of an array."""
    values = np.atleast_2d(values)
    if slopes:
        values = np.diff(values, axis=1)
    return len(values) + int((values[:, 1:] != values[:, :-1]).sum())
