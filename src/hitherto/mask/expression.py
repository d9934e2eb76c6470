"""A mask is a value: a frozen expression over absolute positions, combined with & | ^ - ~."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeVar, dataclass_transform

import numpy as np

from hitherto.errors import MaskError, explain


class Mask:
    """Who may attend to whom: a predicate over absolute integer positions (q, k). True = may.

    A mask holds no lengths, device or dtype. It is immutable, compares and hashes by value, and
    prints as Python that `parse` reads back.
    """

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: "Mask") -> "Mask":
        return Or(self, other) if isinstance(other, Mask) else NotImplemented

    def __xor__(self, other: "Mask") -> "Mask":
        return Xor(self, other) if isinstance(other, Mask) else NotImplemented

    def __sub__(self, other: "Mask") -> "Mask":
        return Minus(self, other) if isinstance(other, Mask) else NotImplemented

    def __invert__(self) -> "Mask":
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            explain(
                "bool(mask)",
                "has no meaning: a mask is true for some pairs and false for others",
                str(self),
                "combine masks with & | ~ instead of and / or / not",
            )
        )

    @cached_property
    def _key(self) -> tuple:
        values = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]
        return tuple(
            (v.shape, v.dtype.str, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values
        )

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, self._key))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._key == other._key  # type: ignore[union-attr]

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        from hitherto.mask.text import spell

        return spell(self)

    __repr__ = __str__


_Node = TypeVar("_Node", bound=type[Mask])


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: _Node) -> _Node:
    """Make a mask class a frozen dataclass that keeps the comparison and printing of `Mask`."""
    return dataclass(frozen=True, eq=False, repr=False)(cls)


def require_mask(argument: str, value: object) -> None:
    """Raise unless `value` is a mask."""
    if not isinstance(value, Mask):
        raise MaskError(explain(argument, "must be a mask", value, "pass e.g. Causal()"))


def require_int(argument: str, value: object, least: int | None = None, fix: str = "") -> None:
    """Raise unless `value` is an int (bool is not), at least `least`."""
    rule = "must be an int" if least is None else f"must be an int >= {least}"
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or (least is not None and value < least):  # type: ignore[operator]
        raise MaskError(explain(argument, rule, value, fix or "pass a count of positions"))
    if abs(int(value)) >= FARTHEST:  # type: ignore[call-overload]
        raise MaskError(explain(argument, f"must be below {FARTHEST}", value, "use None or a mask"))


FARTHEST = 1 << 48
"""No position, length or offset may reach this; sums of a few of them stay inside int64."""


DEEPEST = 100
"""Masks inside masks: what is deeper is refused, so that all else may recurse."""


def _nest(outer: Mask, *parts: Mask) -> None:
    depth = 1 + max(getattr(part, "_depth", 0) for part in parts)
    if depth > DEEPEST:
        raise MaskError(
            explain(type(outer).__name__, f"may hold masks {DEEPEST} deep", f"{depth} levels",
                    "join many ranges in one Keys([...]), many ids in one Segments, or use Table")
        )  # fmt: skip
    object.__setattr__(outer, "_depth", depth)


class _Pair(Mask):
    """Two masks and an operator between them."""

    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        require_mask(f"{type(self).__name__}.left", self.left)
        require_mask(f"{type(self).__name__}.right", self.right)
        _nest(self, self.left, self.right)


@node
class And(_Pair):
    """`a & b`: visible where both are."""

    left: Mask
    right: Mask


@node
class Or(_Pair):
    """`a | b`: visible where either is."""

    left: Mask
    right: Mask


@node
class Xor(_Pair):
    """`a ^ b`: visible where exactly one is."""

    left: Mask
    right: Mask


@node
class Minus(_Pair):
    """`a - b`: visible where a is and b is not."""

    left: Mask
    right: Mask


@node
class Not(Mask):
    """`~a`: visible where a is not."""

    mask: Mask

    def __post_init__(self) -> None:
        require_mask("Not.mask", self.mask)
        _nest(self, self.mask)


@node
class Shift(Mask):
    """The mask at moved positions.

    Meaning: `Shift(m, q=a, k=b)` at `(q, k)` is `m` at `(q - a, k - b)`.
    `Shift(m, q=n, k=n)` is m moved n positions later, as after n pads on the left.
    """

    mask: Mask
    q: int = 0
    k: int = 0

    def __post_init__(self) -> None:
        require_mask("Shift.mask", self.mask)
        require_int("Shift.q", self.q)
        require_int("Shift.k", self.k)
        _nest(self, self.mask)


@node
class PerHead(Mask):
    """One mask per attention head, in the order of the query heads.

    Args:
        masks: at least one mask, none of which has a head axis of its own.
    """

    masks: tuple[Mask, ...]

    def __post_init__(self) -> None:
        masks = tuple(self.masks) if isinstance(self.masks, Iterable) else (self.masks,)
        for i, mask in enumerate(masks):
            require_mask(f"PerHead.masks[{i}]", mask)
            if axes(mask)[1] is not None:
                raise MaskError(
                    explain(
                        f"PerHead.masks[{i}]",
                        "must not have a head axis of its own",
                        str(mask),
                        "list one mask a head in a single PerHead",
                    )
                )
        if not masks:
            raise MaskError(
                explain("PerHead.masks", "must hold a mask a head", "none", "pass a list of masks")
            )
        object.__setattr__(self, "masks", masks)
        _nest(self, *masks)


Axes = tuple[int | None, int | None]


def axes(mask: Mask) -> Axes:
    """Sizes of the mask's (batch, head) axes; None where it has no such axis.

    Raises:
        MaskError: when two parts disagree on a size. Fix: sizes must be equal or 1.
    """
    match mask:
        case PerHead(masks=masks):
            batch = None
            for part in masks:
                batch = _join("batch", batch, axes(part)[0])
            return batch, len(masks)
        case _Pair(left=left, right=right):
            (b1, h1), (b2, h2) = axes(left), axes(right)
            return _join("batch", b1, b2), _join("head", h1, h2)
        case Not(mask=inner) | Shift(mask=inner):
            return axes(inner)
    return mask._axes() if isinstance(mask, _Leaf) else (None, None)


def _join(name: str, one: int | None, two: int | None) -> int | None:
    sizes = {n for n in (one, two) if n is not None and n != 1}
    if len(sizes) > 1:
        raise MaskError(
            explain(f"{name} axis", "must have one size in all parts", f"{one} and {two}",
                    "make the sizes equal, or 1")
        )  # fmt: skip
    return sizes.pop() if sizes else (1 if 1 in (one, two) else None)


class _Leaf(Mask):
    """A mask that is not built from others."""

    def _axes(self) -> Axes:
        """Sizes of the batch and head axes of the data, None where there are none."""
        return None, None

    def _select(self, batch: int, head: int) -> "Mask":
        """Return the mask of one batch row and head, without axes."""
        return self


def select(mask: Mask, batch: int, head: int) -> Mask:
    """Return the mask of one batch row and one head: the same expression without axes."""
    match mask:
        case PerHead(masks=masks):
            return select(masks[head if len(masks) > 1 else 0], batch, 0)
        case _Pair(left=left, right=right):
            return type(mask)(select(left, batch, head), select(right, batch, head))  # type: ignore[call-arg]
        case Not(mask=inner):
            return Not(select(inner, batch, head))
        case Shift(mask=inner, q=q, k=k):
            return Shift(select(inner, batch, head), q=q, k=k)
    return mask._select(batch, head) if isinstance(mask, _Leaf) else mask
