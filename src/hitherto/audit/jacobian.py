"""Gradients: which inputs the outputs depend on, by backward instead of by change.

Each output position is differentiated by itself, along random directions of its outputs, so that
nothing cancels in a sum. A gradient is seen at any size, also far below rounding.
"""

from typing import Any

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import ROWS, Case
from hitherto.audit.guess import of_leak
from hitherto.audit.influence import influence
from hitherto.audit.ledger import Failed
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_double
from hitherto.audit.subject import Array, Subject

TINY = 1e-12
"""Gradients below this part of the largest count as none at hidden pairs."""
LONGEST = 40
"""Length of the gradient map, at most."""


def jacobian(case: Case, length: int) -> Array | None:
    """Return `gradient_map` of a case, or None where there is no graph.

    Raises:
        Failed: when the forward or backward fails, or a gradient is not finite.
    """
    if case.subject.graph is None or case.subject.module is None:
        return None
    try:
        found = gradient_map(case.subject, length, seed=case.seed)
    except Exception as error:
        raise Failed("call fails", f"gradients: {type(error).__name__}: {error}") from error
    case.ledger.forwards += -(-length // ROWS)
    lost = ~np.isfinite(found).all(1)
    if lost.any():
        where = int(np.argmax(lost))
        raise Failed("gradient not finite", f"gradient of output {where} is not finite")
    return found


def gradient_map(subject: Subject, length: int, *, seed: int = 0) -> Array:
    """Return norms of d output q / d input k, (queries, keys), along one random direction.

    Args:
        subject: the model, with a graph.
        length: positions of its input.
        seed: of the input and the direction.

    Raises:
        Exception: what the model raises.
    Cost: one forward and backward of 16 rows for every 16 positions.
    """
    import torch

    base = subject.draw(np.random.default_rng(seed), 1, length)
    found = np.zeros((length, length))
    rng = torch.Generator().manual_seed(seed)
    for first in range(0, length, ROWS):
        queries = torch.arange(first, min(first + ROWS, length))
        rows = torch.as_tensor(np.repeat(base, len(queries), axis=0))
        with torch.enable_grad():
            out, inputs = _differentiable(subject, rows)
            out = out.reshape(*out.shape[:2], -1)
            weights = torch.zeros_like(out)
            one = torch.randn(out.shape[-1], generator=rng, dtype=torch.float64)
            weights[torch.arange(len(queries)), queries] = one.to(out.dtype)
            (slope,) = torch.autograd.grad(out, inputs, weights)
        slope = slope.double().reshape(len(queries), length, -1)
        found[first : first + len(queries)] = slope.norm(dim=-1).numpy()
    return found


def _differentiable(subject: Any, rows: Any) -> tuple[Any, Any]:
    """Return outputs with a graph, and the floats they are differentiated by.

    These are the inputs, or what the first embedding makes of ids.
    """
    import torch

    if subject.kind == "floats":
        like = next(subject.module.parameters(), None)
        inputs = rows.to(torch.float64 if like is None else like.dtype).requires_grad_()
        return subject.graph(inputs), inputs
    held: list = []

    def embed(module, args, output):
        if not held and output.shape[: rows.ndim] == rows.shape:
            held.append(output.detach().requires_grad_())
            return held[0]
        return None

    tables = [m for m in subject.module.modules() if isinstance(m, torch.nn.Embedding)]
    handles = [m.register_forward_hook(embed) for m in tables]
    try:
        out = subject.graph(rows)
    finally:
        for handle in handles:
            handle.remove()
    if not held:
        raise ValueError("no embedding takes the ids")
    return out, held[0]


def probe(case: Case, plan: Plan) -> None:
    """Compare gradients with the declared mask and with the measured map, and explain."""
    if not plan.wants("jacobian"):
        return
    double = in_double(case)
    if case.subject.graph is None or double is None:
        case.ledger.miss("jacobian", "gradients need a torch module and its graph")
        return
    length = max([n for n in plan.lengths if n <= LONGEST], default=plan.lengths[0])
    try:
        slopes = jacobian(double, length)
    except Failed as failure:
        if failure.cause != "gradient not finite":
            raise
        case.ledger.found(
            Finding(kind="broken", probe="jacobian", length=length, cause=failure.cause,
                    detail=failure.detail, seed=case.seed,
                    reproducer=_replay(case, length, "slopes.max()", "not finite"))
        )  # fmt: skip
        return
    if slopes is None:
        return
    reach = case.declared.reach(length)
    moved = influence(case, length) > 0
    _compare(case, length, slopes, moved, reach)


def _compare(case: Case, length: int, slopes: Array, moved: Array, reach: Array) -> None:
    hidden = (slopes > TINY * slopes.max()) & ~reach
    alone = hidden & ~moved
    if alone.any():
        cause = "only the gradient crosses"
        query, key = (int(i) for i in np.argwhere(alone)[0])
        case.ledger.found(
            Finding(kind="leak", probe="jacobian", length=length, pair=(query, key),
                    size=float(slopes[alone].max() / slopes.max()), cause=cause, seed=case.seed,
                    detail=of_leak(slopes * hidden, reach, None)[1],
                    reproducer=_replay(case, length, f"slopes[{query}, {key}] / slopes.max()",
                                       f"output {query} has a gradient by hidden input {key}"))
        )  # fmt: skip
    unseen = int((moved & (slopes == 0)).sum())
    below = int((~moved & (slopes > 0)).sum())
    text = f"jacobian, float64, length {length}: "
    if not unseen and not below:
        case.ledger.note(text + "agrees with the map")
    if unseen:
        case.ledger.note(
            text + f"{unseen} pairs move without a gradient (choice, rounding, detach)"
        )
    if below:
        case.ledger.note(text + f"{below} pairs have a gradient and moved no bit (below rounding)")


def _replay(case: Case, length: int, number: str, says: str) -> str:
    slopes = f"slopes = gradient_map(subject, {length}, seed={case.seed})"
    return replay.replay(case, slopes, f"print({number})  # {says}", double=True)
