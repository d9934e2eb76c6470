"""How far a mask looks, so that a question about every length is decided on one grid.

Whether (q, k) is visible depends on how q and k compare with some constants (all below `corner`),
on `k - q` where it is within `span`, and on q and k modulo `period`. So moving a far pair back by
whole periods changes nothing, and whatever happens anywhere happens on a grid of
`corner + span + 2 * period + 2` positions.
"""

from dataclasses import dataclass
from math import lcm

import numpy as np

from hitherto.mask.data import Keys, Predicate, Queries, Segments, Table, Timeline, Tree
from hitherto.mask.expression import And, Mask, Minus, Not, Or, PerHead, Shift, Xor, _Pair
from hitherto.mask.positions import (
    Band,
    BlockCausal,
    Chunks,
    Dilated,
    Everything,
    Nothing,
    Prefix,
    RandomBlocks,
    Strided,
    Window,
)


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a mask's behaviour repeats, and where its data end."""

    corner: int = 0
    span: int = 0
    period: int = 1
    q_data: int | None = None
    """Positions that the data give for queries; None = no data."""
    k_data: int | None = None
    """Positions that the data give for keys; None = no data."""

    @property
    def side(self) -> int:
        """Positions of a square grid on which everything the mask does happens."""
        return self.corner + self.span + 2 * self.period + 2


def reach(mask: Mask) -> Reach:
    """Return how far a mask looks. RandomBlocks and Predicate count as looking nowhere."""
    match mask:
        case _Pair(left=a, right=b):
            return _join(reach(a), reach(b))
        case Not(mask=a):
            return reach(a)
        case Shift(mask=a, q=q, k=k):
            inner = reach(a)
            return Reach(
                inner.corner + max(abs(q), abs(k)), inner.span + abs(q) + abs(k), inner.period,
                None if inner.q_data is None else inner.q_data + q,
                None if inner.k_data is None else inner.k_data + k,
            )  # fmt: skip
        case PerHead(masks=masks):
            total = Reach()
            for part in masks:
                total = _join(total, reach(part))
            return total
    return _leaf(mask)


def _leaf(mask: Mask) -> Reach:
    match mask:
        case Window(width=n):
            return Reach(span=n)
        case Band(before=before, after=after):
            return Reach(span=max(abs(before or 0), abs(after or 0)) + 1)
        case Prefix(length=n):
            return Reach(corner=n)
        case Chunks(size=n, start=start):
            return Reach(corner=abs(start) % n, span=n, period=n)
        case BlockCausal(size=n):
            return Reach(span=n, period=n)
        case Dilated(width=width, step=step):
            return Reach(span=width * step)
        case Strided(step=step):
            return Reach(period=step)
        case Queries(where=where) | Keys(where=where):
            if not isinstance(where, np.ndarray):
                return Reach(corner=max([0, *(stop for _, stop in where)]))
            n = where.shape[-1]
            return Reach(q_data=n) if isinstance(mask, Queries) else Reach(k_data=n)
        case Segments(ids=ids, k_ids=k_ids):
            return Reach(q_data=ids.shape[-1], k_data=(ids if k_ids is None else k_ids).shape[-1])
        case Timeline(q_time=q_time, k_time=k_time):
            return Reach(q_data=q_time.shape[-1], k_data=k_time.shape[-1])
        case Tree(parents=parents, start=start):
            return Reach(q_data=start + parents.size, k_data=start + parents.size)
        case Table(array=array):
            return Reach(q_data=array.shape[-2], k_data=array.shape[-1])
    return Reach()


def _join(one: Reach, two: Reach) -> Reach:
    return Reach(
        max(one.corner, two.corner), max(one.span, two.span), lcm(one.period, two.period),
        _least(one.q_data, two.q_data), _least(one.k_data, two.k_data),
    )  # fmt: skip


def _least(one: int | None, two: int | None) -> int | None:
    return min((n for n in (one, two) if n is not None), default=None)


def bounds(mask: Mask) -> tuple[Mask, Mask]:
    """Return (inner, outer): masks without opaque parts, inside and around this one."""
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b):
            (a0, a1), (b0, b1) = bounds(a), bounds(b)
            return type(mask)(a0, b0), type(mask)(a1, b1)
        case Minus(left=a, right=b):
            (a0, a1), (b0, b1) = bounds(a), bounds(b)
            return a0 - b1, a1 - b0
        case Xor(left=a, right=b):
            (a0, a1), (b0, b1) = bounds(a), bounds(b)
            if (a0, b0) == (a1, b1):
                return mask, mask
            return (a0 - b1) | (b0 - a1), (a1 - b0) | (b1 - a0)
        case Not(mask=a):
            inner, outer = bounds(a)
            return ~outer, ~inner
        case Shift(mask=a, q=q, k=k):
            inner, outer = bounds(a)
            return Shift(inner, q=q, k=k), Shift(outer, q=q, k=k)
        case PerHead(masks=masks):
            inner, outer = zip(*map(bounds, masks), strict=True)
            return PerHead(inner), PerHead(outer)
        case RandomBlocks(block=block):
            return Nothing(), BlockCausal(block)
        case Predicate():
            return Nothing(), Everything()
    return mask, mask
