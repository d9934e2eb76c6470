"""Padding: pads must not move what is real, whatever they hold and however many they are."""

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case
from hitherto.audit.compare import agree
from hitherto.audit.influence import hidden_changes
from hitherto.audit.isolate import Way, differs, isolated, module_between
from hitherto.audit.plan import Plan
from hitherto.audit.stages import stage_name, stages_of
from hitherto.audit.subject import Array, Subject

LENGTH = 12
"""Real positions of a row."""
PROMPT = 6
"""Real positions of a prompt that steps follow."""
COUNTS = (1, 3, 8)
"""Pads added."""
BESIDE_STEPS = 3
"""Pads added to a prompt."""


def probe(case: Case, plan: Plan) -> None:
    """Add pads on either side; change what they hold, how many they are, and the real future."""
    if not plan.wants("padding"):
        return
    stages = case.subject.stages
    ragged = stages is not None and stages.padded is not None
    if case.noisy or (case.subject.padded is None and not ragged):
        noise = "outputs change from call to call"
        case.ledger.miss("padding", noise if case.noisy else "the model offers none")
        return
    for side in ("left", "right"):
        for count in COUNTS if case.subject.padded else ():
            with case.ledger.probing(f"padded {side}, {count} pads"):
                _whole(case, side, count)
        for kind in stages.kinds if ragged and side in stages.pads else ():
            with case.ledger.probing(stage_name(f"padded {side}, then decode", kind, stages.kinds)):
                _steps(case, side, kind)
    case.ledger.note(_covered(case, ragged))


def _covered(case: Case, ragged: bool) -> str:
    told = [f"{COUNTS} pads left and right of {LENGTH} positions"] if case.subject.padded else []
    if ragged:
        sides = " and ".join(stages_of(case.subject).pads)
        told.append(f"{BESIDE_STEPS} pads {sides} of a prompt, then decode")
    return f"padding: {'; '.join(told)}"


def padded(subject: Subject, x: Array, real: Array) -> Array:
    """Run rows whose other positions are pads; outputs there are zeros."""
    assert subject.padded is not None
    return _blank(np.asarray(subject.padded(x, real)), real)


def padded_steps(subject: Subject, x: Array, real: Array, prompt: int, kind: str) -> Array:
    """Give the first positions, pads among them, to a cache, and the others one by one.

    Args:
        subject: whose stages take pads.
        x: rows (batch, length).
        real: bool (batch, length), False at pads.
        prompt: positions of the first piece; pads lie inside it.
        kind: of the cache.

    Returns:
        Outputs of all positions; zeros at pads.
    """
    stages = stages_of(subject)
    assert stages.padded is not None
    state = stages.start(len(x), kind)
    pieces = [stages.padded(state, x[:, :prompt], real[:, :prompt])]
    pieces += [stages.step(state, x[:, i : i + 1]) for i in range(prompt, x.shape[1])]
    return _blank(np.concatenate([np.asarray(piece) for piece in pieces], axis=1), real)


def _blank(out: Array, real: Array) -> Array:
    return np.where(real.reshape(*real.shape, *[1] * (out.ndim - 2)), out, 0)


def _whole(case: Case, side: str, count: int) -> None:
    """Pads beside whole rows."""
    first = 0 if side == "left" else LENGTH
    x, real, made = _row(case, range(first, first + count))
    way = Way(
        probe="padding", mode=f"padded {side}", made=made, real="[:, real[0]]",
        run=lambda s, z: padded(s, z, real), code="subject.padded({x}, real)",
        alone=lambda s, z: s.run(z[:, real[0]]), alone_code="subject.run(x[:, real[0]])",
    )  # fmt: skip
    if count == COUNTS[-1]:
        _future(case, way, x, real)
    _check(case, way, x, real)


def _steps(case: Case, side: str, kind: str) -> None:
    """Pads beside a prompt, then the rest one by one; against the same calls without a pad."""
    first = 0 if side == "left" else PROMPT
    x, real, made = _row(case, range(first, first + BESIDE_STEPS))
    prompt, inside = PROMPT + BESIDE_STEPS, real[:, real[0]]
    way = Way(
        probe="padding", made=made, real="[:, real[0]]",
        mode=stage_name(f"padded {side}, then decode", kind, stages_of(case.subject).kinds),
        run=lambda s, z: padded_steps(s, z, real, prompt, kind),
        code=f"padded_steps(subject, {{x}}, real, {prompt}, {kind!r})",
        alone=lambda s, z: padded_steps(s, z[:, real[0]], inside, PROMPT, kind),
        alone_code=f"padded_steps(subject, x[:, real[0]], real[:, real[0]], {PROMPT}, {kind!r})",
    )  # fmt: skip
    _check(case, way, x, real)


def _row(case: Case, pads: range) -> tuple[Array, Array, tuple[str, str]]:
    """Return a row, which of it is real, and Python that makes both."""
    length = LENGTH + len(pads)
    real = ~np.isin(np.arange(length), pads)[None]
    spelled = f"real = ~np.isin(np.arange({length}), {pads})[None]"
    return case.base(length), real, (replay.base(case, length), spelled)


def _check(case: Case, way: Way, x: Array, real: Array) -> None:
    """Change what the pads hold; compare with the row without pads."""
    inside = real[0]
    if not isolated(case, way, x, ~inside, real, "pads are seen"):
        return
    found = agree(case, lambda s: way.alone(s, x), lambda s: way.run(s, x)[:, inside])
    if found:
        where = np.ones((1, int(inside.sum())), bool), real
        module = module_between(case, lambda s: way.alone(s, x), lambda s: way.run(s, x), where)
        detail = f"{int((~real).sum())} pads move it, whatever they hold"
        differs(case, way, x, found, module, detail)


def _future(case: Case, way: Way, x: Array, real: Array) -> None:
    """Between real positions the declared mask holds beside pads too."""
    for change in hidden_changes(case.declared.reach(int(real.sum())), 4):
        keys, still = np.zeros_like(real), np.zeros_like(real)
        keys[real], still[real] = change.keys, change.still
        if not isolated(case, way, x, keys[0], still, "mask dropped"):
            break
