"""The blind probe: does every input that may matter move its output at least once?

One input at a time, several values each; what never moved is tried again from other inputs, in
float64, and by gradients, before it is called blind.
"""

from dataclasses import replace

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import DRAWS, Case, Versus
from hitherto.audit.guess import of_blind
from hitherto.audit.influence import alone, influence
from hitherto.audit.jacobian import jacobian
from hitherto.audit.ledger import Failed
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_double
from hitherto.audit.subject import Array

BASES = 3
"""Further inputs from which a pair that never moved is tried."""


def probe(case: Case, plan: Plan) -> None:
    """Measure the whole map, and compare what was declared visible with what was seen."""
    if not plan.wants("map"):
        return
    length = plan.map_length
    seen = influence(case, length) > 0
    case.ledger.note(f"{case.mode}: map of {length} x {length}, {DRAWS} values an input")
    if case.noisy:
        case.ledger.miss("blind pairs", "outputs change from call to call")
        return
    reach = expected(case, length)
    missing = reach & ~seen
    if missing.any():
        missing &= ~again(case, length, missing)
    if missing.any():
        _tell(case, length, missing, seen, reach)


def expected(case: Case, length: int) -> Array:
    """Return the pairs that must carry influence.

    Through all layers where their number is known, else those of the mask itself; the diagonal
    only where the mask shows it.
    """
    declared = case.declared
    if declared.depth is None or not declared.sure:
        return np.logical_or.reduce(declared.layers(length))
    return declared.reach(length)


def again(case: Case, length: int, missing: Array) -> Array:
    """Try pairs that never moved: other inputs, float64, gradients. Returns those that moved."""
    double = in_double(case) or case
    found = np.zeros_like(missing)
    for extra in range(1, BASES + 1):
        keys = np.flatnonzero((missing & ~found).any(0))
        if not len(keys):
            return found
        floor = double.floor if case.floor else 0.0
        other = replace(double, seed=case.seed + 1000 * extra, maps={}, floor=floor)
        try:
            found[:, keys] |= alone(other, Versus(other, length), keys, range(2)) > 0
        except Failed:
            break
    if (missing & ~found).any():
        gradients = jacobian(double, length)
        found |= False if gradients is None else gradients > 0
    return found


def _tell(case: Case, length: int, missing: Array, seen: Array, reach: Array) -> None:
    cause, detail = of_blind(missing, seen, reach)
    query, key = (int(i) for i in np.argwhere(missing)[0])
    case.ledger.found(
        Finding(
            kind="blind", probe="map", mode=case.mode, length=length, pair=(query, key),
            cause=cause, detail=detail, seed=case.seed,
            reproducer=replay.moving(
                case, length, np.array([key]), query, 1, f"should move with input {key}"
            ),
        )
    )  # fmt: skip
