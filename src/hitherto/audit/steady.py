"""Is the model the same function at every call, and in every row of a batch?

Asked when the base input gave other bits: at a second call, or in a slot beside changed rows.
"""

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case, Versus, gap, scale
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import locate
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_double, limit, small_enough, twin_of


def steady(case: Case, versus: Versus) -> bool:
    """Return True when the base gives the same bits again and no row moves another.

    Else say why in the ledger, change the case (noise, or rows of one) so that probing can go on,
    and return False: the caller starts again.
    """
    if case.noisy or (case.floor and not case.double):
        return not versus.guard or _mixes(case, versus)
    if versus.null() or (versus.guard and versus.null()):
        _unsteady(case, versus)
        return False
    return not versus.guard or _mixes(case, versus)


def _unsteady(case: Case, versus: Versus) -> None:
    """The same call gave other bits: noise, or something remembered."""
    length = versus.base.shape[1]
    one, two = (case.run(np.repeat(versus.base, case.rows, axis=0)) for _ in range(2))
    remembers = np.array_equal(one, two)
    if case.double:
        raise Failed("outputs change from call to call", "it changes from call to call too")
    versus.calibrate()
    size, small = versus.noise / 4, limit(case.subject, versus.before)
    if size <= small and not remembers:
        _rounds(case, max(small, versus.noise), size)
        return
    if case.varies and not remembers:
        case.ledger.miss(
            f"{case.mode}: movements below {versus.noise:.0e} of the outputs' scale",
            "outputs change from call to call, as they may in this mode",
        )
        return
    cause = "state kept between calls" if remembers else "outputs change from call to call"
    case.ledger.found(
        Finding(
            kind="unstable", probe="run", mode=case.mode, length=length, size=size, cause=cause,
            detail=f"the same input again moves outputs by {size:.1e} of their scale; "
            f"movements below {versus.noise:.1e} count as none", seed=case.seed,
            reproducer=_again(case, length),
        )
    )  # fmt: skip


def _rounds(case: Case, floor: float, size: float) -> None:
    """Equal calls differ by rounding: what is smaller is left to the float64 copy."""
    case.noisy, case.floor = False, floor
    why = f"outputs change from call to call by {size:.0e}, about epsilon"
    if twin_of(case) is None:
        case.ledger.cannot_decide(f"{case.mode}: leaks below {floor:.0e} of the scale", why)
    else:
        case.ledger.note(f"{case.mode}: {why}; smaller leaks are looked for in float64")


def _mixes(case: Case, versus: Versus) -> bool:
    """A row moved although only other rows changed: rounding, or a fault."""
    if not mixing(case, versus.base.shape[1]):
        return True
    case.rows = 1
    return False


def probe(case: Case, plan: Plan) -> None:
    """Change other rows at every position: the leak probe leaves their first ones as they are."""
    if plan.wants("batch") and case.rows > 2 and not case.noisy:
        mixing(case, plan.lengths[-1])
        case.ledger.note(f"batch: other rows changed, length {plan.lengths[-1]}")


def mixing(case: Case, length: int) -> bool:
    """Change some rows and report it if the others move.

    All between the ends change, then every second. Cost: 4 forwards.
    """
    if case.rows < 3:
        return False
    ends = np.isin(np.arange(case.rows), (0, case.rows - 1))
    return any(_mixing(case, length, kept) for kept in (ends, np.arange(case.rows) % 2 == 1))


def _mixing(case: Case, length: int, kept: np.ndarray) -> bool:
    base = np.repeat(case.base(length), case.rows, axis=0)
    other = np.concatenate([case.other(base[:1], row) for row in range(case.rows)])
    other[kept] = base[:1]
    still = np.repeat(kept[:, None], length, axis=1)
    one, two = case.run(base), case.run(other)
    size = float((gap(one, two) / scale(one))[still].max())
    if size <= case.floor:
        return False
    if small_enough(case, one, size):
        double = in_double(case)
        return double is not None and _mixing(double, length, kept)
    module = locate(case.subject, base, other, still, case.floor)
    case.ledger.forwards += 2
    case.ledger.found(
        Finding(
            kind="leak", probe="batch", mode=case.mode, length=length, size=size, module=module,
            cause="batch rows mix", detail="a row moves when only other rows of its batch change",
            seed=case.seed, reproducer=_neighbours(case, kept, length),
        )
    )  # fmt: skip
    return True


def _again(case: Case, length: int) -> str:
    return replay.replay(
        case,
        replay.base(case, length),
        f"outs = [subject.run(np.repeat(x, {case.rows}, axis=0)) for _ in range(6)]",
        "print(max(moved(outs[0], out).max() for out in outs))  # the same call six times",
    )


def _neighbours(case: Case, kept: np.ndarray, length: int) -> str:
    still = replay.positions(np.flatnonzero(kept))
    return replay.replay(
        case,
        replay.base(case, length),
        f"rows = np.concatenate([changed(subject, x, {case.seed}, i) for i in range({case.rows})])",
        f"rows[{still}] = x",
        f"a, b = subject.run(np.repeat(x, {case.rows}, axis=0)), subject.run(rows)",
        f"print(moved(a, b)[{still}].max())  # these rows have not changed",
    )
