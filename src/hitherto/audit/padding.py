"""Padding: pads must not move what is real, whatever they hold and however many they are."""

import numpy as np

from hitherto.audit.agree import Disagreement, agree
from hitherto.audit.case import Case
from hitherto.audit.influence import hidden_changes
from hitherto.audit.isolate import isolated, redrawn, wide
from hitherto.audit.locate import first_differing
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import twin_of
from hitherto.audit.subject import Array, Subject

LENGTH = 12
"""Real positions of a row."""
COUNTS = (1, 3, 8)
"""Pads added."""


def probe(case: Case, plan: Plan) -> None:
    """Add pads on either side; change what they hold, how many they are, and the real future."""
    if not plan.wants("padding"):
        return
    if case.subject.padded is None or case.noisy:
        noise = "outputs change from call to call"
        case.ledger.miss("padding", noise if case.noisy else "the model offers none")
        return
    for side in ("left", "right"):
        for count in COUNTS:
            with case.ledger.probing(f"padded {side}, {count} pads"):
                _pads(case, side, count, last=count == COUNTS[-1])
    case.ledger.note(f"padding: {COUNTS} pads left and right of {LENGTH} positions")


def padded(subject: Subject, x: Array, real: Array) -> Array:
    """Run a row whose other positions are pads."""
    assert subject.padded is not None
    return np.asarray(subject.padded(x, real))


def _pads(case: Case, side: str, count: int, last: bool) -> None:
    mode, x = f"padded {side}", case.base(LENGTH)
    pads = case.other(case.base(count), 0)
    whole = np.concatenate([pads, x] if side == "left" else [x, pads], axis=1)
    real = np.arange(whole.shape[1])[None] >= count
    real = real if side == "left" else np.ascontiguousarray(real[:, ::-1])

    def way(subject: Subject):
        return lambda z: np.where(wide(real, out := padded(subject, z, real)), out, 0)

    told = {"mode": mode, "probe": "padding"}
    hidden = isolated(
        case, way, whole, redrawn(case, whole, ~real), real, cause="pads are seen", **told
    )
    if last:
        for keys, still in _future(case, real):
            other = redrawn(case, whole, keys)
            if not isolated(case, way, whole, other, still, cause="mask dropped", **told):
                break
    found = agree(case, lambda s: s.run(x), lambda s: padded(s, whole, real)[:, real[0]])
    if found and hidden:
        _tell(case, mode, count, found, x, whole, real)


def _future(case: Case, real: Array) -> list[tuple[Array, Array]]:
    """Between real positions the declared mask holds beside pads too: (changed, still) rows."""
    found = []
    for change in hidden_changes(case.declared.reach(int(real.sum())), 4):
        keys, still = np.zeros_like(real), np.zeros_like(real)
        keys[real], still[real] = change.keys, change.still
        found.append((keys, still))
    return found


def _tell(
    case: Case, mode: str, count: int, found: Disagreement, x: Array, whole: Array, real: Array
) -> None:
    subject = twin_of(case) or case.subject
    module = first_differing(
        subject,
        lambda: subject.run(x),
        lambda: padded(subject, whole, real),
        (np.ones((1, LENGTH), bool), real),
        1e-9 if subject is not case.subject else 1e-3,
    )
    case.ledger.found(
        Finding(
            kind="inconsistent", probe="padding", mode=mode, length=whole.shape[1],
            size=found.size, module=module, cause="position ids", seed=case.seed,
            detail=f"{count} pads move output {found.position}, whatever they hold",
        )
    )  # fmt: skip
