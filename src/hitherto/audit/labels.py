"""Labels: is the loss that of the next token, row by row, and do labels stay out of the forward?"""

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case, gap, scale
from hitherto.audit.ledger import Failed
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.subject import Array

IGNORED = -100
"""Label of a position that is not scored."""
ROWS, UNSCORED = 3, slice(2, 4)
"""Rows of tokens, and the positions whose labels are ignored."""
OTHERS = range(1, 6)
"""Draws of other labels: what counts one class does not move if both have it as often."""
CLOSE = 1e-3
"""Losses this close, relatively, are the same."""


def probe(case: Case, plan: Plan) -> None:
    """Run the label probes where the subject offers a loss or a forward with labels."""
    if not plan.wants("labels"):
        return
    subject = case.subject
    if subject.loss is None and subject.labelled is None:
        case.ledger.miss("labels", "the model computes no loss")
        return
    length = next((n for n in plan.lengths if n >= 8), plan.lengths[-1])
    tokens = subject.draw(np.random.default_rng(case.seed), ROWS, length)
    labels = case.other(tokens, 0)
    labels[:, UNSCORED] = IGNORED
    if subject.loss is not None:
        with case.ledger.probing("labels: loss"):
            _loss(case, tokens, labels)
    if subject.labelled is not None:
        with case.ledger.probing("labels: forward"):
            _forward(case, tokens, labels)


def _call(function, *args: Array) -> Array:
    try:
        return np.asarray(function(*args), dtype=np.float64)
    except Exception as error:
        raise Failed("call fails", f"{type(error).__name__}: {error}") from error


def losses(out: Array, labels: Array, shift: int, across: bool = False) -> Array:
    """Return the cross-entropy of output i against labels[i + shift], and the row, (n, 2).

    Ignored labels are left out; `across` shifts the flattened batch, over the ends of rows.
    """
    rows = np.repeat(np.arange(len(labels))[:, None], labels.shape[1], 1)
    if across:
        out, labels, rows = (a.reshape(1, -1, *a.shape[2:]) for a in (out, labels, rows))
    out, rows = out[:, : labels.shape[1] - shift], rows[:, : labels.shape[1] - shift]
    wanted = labels[:, shift:]
    top = out.max(-1, keepdims=True)
    log = out - top - np.log(np.exp(out - top).sum(-1, keepdims=True))
    scored = wanted != IGNORED
    picked = np.take_along_axis(log, np.where(scored, wanted, 0)[..., None], -1)[..., 0]
    return np.stack([-picked[scored], rows[scored]], 1)


def _loss(case: Case, tokens: Array, labels: Array) -> None:
    told = _call(case.subject.loss, tokens, labels)
    out = case.run(tokens).astype(np.float64)
    ways = {
        "labels not shifted": (0, False), "": (1, False), "labels shifted twice": (2, False),
        "labels shifted across rows": (1, True),
    }  # fmt: skip
    if case.subject.shift == 0:
        ways = {"": (0, False), "labels shifted twice": (1, False)}
    fits = [
        name for name, way in ways.items() if _fits(told, losses(out, labels, *way), len(tokens))
    ]
    mixed, draw = _mixed(case, tokens, labels, told)
    if (fits and "" not in fits) or not fits:
        cause = fits[0] if fits else "losses of rows mix" if mixed else "loss not reproduced"
        own = float(losses(out, labels, case.subject.shift)[:, 0].mean())
        code = (
            f"hand = losses(subject.run(x), y, {case.subject.shift})[:, 0].mean()",
            "print(abs(np.mean(subject.loss(x, y)) - hand))  # the model's loss, and by hand",
        )
        _tell(case, tokens, cause, f"loss {float(told.mean()):.5g}, by hand {own:.5g}", code)
    elif mixed:
        code = (
            "z = y.copy()",
            f"z[1] = changed(subject, x, {case.seed}, {draw})[1]",
            "apart = abs(subject.loss(x, y) - subject.loss(x, z))",
            "print(max(apart[0], apart[2]))  # only row 1 has other labels",
        )
        _tell(case, tokens, "losses of rows mix", mixed, code)
    case.ledger.note(
        f"labels: loss against the outputs' own, shifts {sorted({w[0] for w in ways.values()})}"
    )


def _fits(told: Array, each: Array, rows: int) -> bool:
    """Whether a loss is the mean over positions, over rows, a row's own, or the sum."""
    values, row = each[:, 0], each[:, 1]
    own = np.array([values[row == r].mean() for r in range(rows) if (row == r).any()])
    if told.ndim and told.size > 1:
        return told.size == own.size and bool(np.allclose(told.ravel(), own, rtol=CLOSE))
    return any(
        np.isclose(float(told), x, rtol=CLOSE) for x in (values.mean(), own.mean(), values.sum())
    )


def _mixed(case: Case, tokens: Array, labels: Array, told: Array) -> tuple[str, int]:
    """Say how a row's loss moves with another row's labels, where told by row; and which draw."""
    for draw in OTHERS if told.size > 1 else ():
        other = labels.copy()
        other[1] = case.other(tokens, draw)[1]
        moved = _call(case.subject.loss, tokens, other).ravel() != told.ravel()
        moved[1] = False
        if moved.any():
            return f"loss of row {int(np.argmax(moved))} moves with the labels of row 1", draw
    return "", 0


def _forward(case: Case, tokens: Array, labels: Array) -> None:
    """Other labels must not move any output."""
    for draw in OTHERS:
        pair = labels, case.other(tokens, draw)
        one, two = (_call(case.subject.labelled, tokens, which) for which in pair)
        one, two = (a.reshape(*a.shape[:2], -1) for a in (one, two))
        size = float((gap(one, two) / scale(one)).max())
        if size > case.floor:
            where = int(np.argmax(gap(one, two).max(0)))
            detail = f"output {where} moves with the labels"
            code = (
                f"z = changed(subject, x, {case.seed}, {draw})",
                "a, b = subject.labelled(x, y), subject.labelled(x, z)",
                f"print(moved(a, b)[:, {where}].max())  # the same tokens, other labels",
            )
            _tell(case, tokens, "label reaches its own prediction", detail, code, size)
            break
    case.ledger.note("labels: other labels, the same outputs")


def _tell(
    case: Case, tokens: Array, cause: str, detail: str, code: tuple[str, ...], size: float = 0.0
) -> None:
    drawn = (
        replay.base(case, tokens.shape[1], ROWS),
        f"y = changed(subject, x, {case.seed}, 0)",
        f"y[:, {UNSCORED.start}:{UNSCORED.stop}] = {IGNORED}",
    )
    case.ledger.found(
        Finding(kind="label", probe="labels", length=tokens.shape[1], size=size, cause=cause,
                detail=detail, seed=case.seed, reproducer=replay.replay(case, *drawn, *code))
    )  # fmt: skip
