"""Change what must not matter, beside what must stay: pads, other documents."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hitherto.audit.case import Case, checked, gap, scale
from hitherto.audit.locate import locate
from hitherto.audit.report import Finding
from hitherto.audit.rounding import SMALL, small_enough, twin_of
from hitherto.audit.subject import Array, Subject

Way = Callable[[Subject], Callable[[Array], Array]]
"""From a subject to a function of the whole row."""


def isolated(
    case: Case, way: Way, x: Array, y: Array, still: Array, *, mode: str, probe: str, cause: str
) -> bool:
    """Compare two rows that differ only where nothing still may see it; report what moves.

    The shapes are the same, so bits count; movements of about epsilon are decided in float64.

    Args:
        case: the subject.
        way: how to run it: with these pads, or packed so.
        x: a row.
        y: the same shape.
        still: bool (batch, length): outputs that must not move.
        mode: name of the way.
        probe: name of the probe.
        cause: the likely cause if something moves.
    """
    one, two = (checked(way(case.subject), z) for z in (x, y))
    case.ledger.forwards += 2
    sizes = np.where(still, gap(one, two) / scale(one), 0)
    size = float(sizes.max())
    if size == 0:
        return True
    if small_enough(case, one, size):
        double = twin_of(case)
        a, b = (checked(way(double), z) for z in (x, y)) if double else (one, one)
        if float((gap(a, b) / scale(a))[still].max()) <= SMALL:
            return True
    query = int(np.argwhere(sizes > 0)[0, 1])
    key = int(np.flatnonzero((x != y).reshape(*x.shape[:2], -1).any((0, 2)))[0])
    inside = replace(case.subject, run=way(case.subject))
    case.ledger.found(
        Finding(
            kind="leak", probe=probe, mode=mode, length=x.shape[1], pair=(query, key),
            size=min(size, 1e300), module=locate(inside, x, y, still, case.floor), cause=cause,
            detail=f"{int((sizes > 0).sum())} outputs move that must not", seed=case.seed,
        )
    )  # fmt: skip
    return False


def redrawn(case: Case, x: Array, where: Array) -> Array:
    """Return the row with other values at these positions, bool (batch, length)."""
    other = case.subject.redraw(np.random.default_rng(case.seed + 7), x)
    return np.where(wide(where, x), other, x)


def wide(mask: Array, x: Array) -> Array:
    """Return a (batch, length) mask with the axes of a row."""
    return mask.reshape(*mask.shape, *[1] * (x.ndim - 2))
