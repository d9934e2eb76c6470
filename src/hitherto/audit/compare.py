"""Two ways to compute the same outputs: do they agree, or differ by more than rounding?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hitherto.audit.case import Case, gap, require_finite, scale
from hitherto.audit.ledger import Failed
from hitherto.audit.rounding import SMALL, limit, twin_of
from hitherto.audit.subject import Array, Subject

Compute = Callable[[Subject], Array]
"""From a subject (the case's own, or its float64 copy) to outputs (batch, length, outputs)."""

GROWTH = 8
"""Two float32 ways may differ by so many times what one differs from float64."""


@dataclass(frozen=True)
class Disagreement:
    """Two ways to compute the same that differ by more than rounding."""

    size: float
    """Largest difference, as a part of the outputs' scale."""
    position: int
    """Where it is."""
    sizes: Array
    """Difference at each position, (length,)."""
    double: bool
    """Whether it is there in float64 too."""


def agree(case: Case, one: Compute, other: Compute, both: bool = True) -> Disagreement | None:
    """Compare two ways; None when they agree to rounding.

    Meaning: in float64 they may differ within `UNITS` of its epsilon. In the model's own precision
    they may differ within `UNITS` of that epsilon, or `GROWTH` times what the first way differs
    from float64. Without a float64 copy only the first part of the latter decides.

    Args:
        case: the subject; its float64 copy is made here.
        one: the way that is right.
        other: the way to check.
        both: whether to compare in the model's own precision where float64 can be had.

    Raises:
        Failed: when either cannot be computed, or their shapes differ.
    """
    double, exact = twin_of(case), None
    if double is not None:
        try:
            exact = _computed(one, double)
            apart = _apart(exact, _computed(other, double))
        except Failed:
            exact = None
    if exact is not None and apart.max() > SMALL:
        return _told(apart, True)
    if exact is not None and not both:
        return None
    plain = _computed(one, case.subject)
    own = _apart(plain, _computed(other, case.subject))
    allowed = limit(case.subject, plain)
    if exact is not None:
        allowed += GROWTH * float(_apart(exact, plain).max())
    return None if own.max() <= allowed else _told(own, False)


def _computed(compute: Compute, subject: Subject) -> Array:
    try:
        out = np.asarray(compute(subject))
    except Failed:
        raise
    except Exception as error:
        raise Failed(
            "call fails", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        ) from error
    out = out.reshape(*out.shape[:2], -1)
    out = out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
    require_finite(out)
    return out


def _apart(one: Array, other: Array) -> Array:
    if one.shape != other.shape:
        raise Failed("output does not follow the input", f"shapes {one.shape} and {other.shape}")
    return (gap(one, other) / scale(one)).max(axis=0)


def _told(sizes: Array, double: bool) -> Disagreement:
    return Disagreement(min(float(sizes.max()), 1e300), int(np.argmax(sizes)), sizes, double)
