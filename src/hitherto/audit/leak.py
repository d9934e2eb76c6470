"""The leak probe: does any output move with inputs that it may not see?

Cost, for a model that is clean: six forwards of 16 rows at each length (the base, the base again,
and four with 14 changes each).
"""

from dataclasses import replace

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import DRAWS, Case, Versus, gap
from hitherto.audit.guess import Guess, of_leak
from hitherto.audit.influence import Change, Leak, alone, apply, hidden, hidden_changes
from hitherto.audit.inside import layer_map, opened
from hitherto.audit.layers import attention_like
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import locate, module_of
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_double, limit, small_enough
from hitherto.audit.steady import mixing, steady

VALUES = 28
"""Values with which a whole side is filled."""
FORWARDS = 4
"""Forwards with changes, at each length."""
WHOLE_MAP = 320
"""Up to this length a leak is drawn as a whole map; beyond, some columns of it."""


def leaks(case: Case, length: int, changes: list[Change] | None = None) -> Finding | None:
    """Look for a leak at one length, by these changes or all usual ones; tell the ledger."""
    reach = case.declared.reach(length)
    versus = Versus(case, length)
    if not steady(case, versus):
        return leaks(case, length, changes)
    forwards = FORWARDS * (1 if case.rows > 1 else 2)
    if changes is None:
        changes = hidden_changes(reach, forwards * versus.room, case.subject.sizes)
    if not changes:
        return None
    leak = hidden(case, versus, changes)
    if versus.guard and not steady(case, versus):
        return leaks(case, length, changes)
    if leak is None:
        decides = case.floor and not case.double
        return _in_double(case, length, versus, changes) if decides else None
    if small_enough(case, versus.before, leak.size):
        return _in_double(case, length, versus, changes)
    if case.rows > 1 and not _alone(case, versus, leak) and mixing(case, length):
        case.rows = 1
        return leaks(case, length, changes)
    inside = opened(case)
    module = at_fault(inside, versus, leak)
    known = [f for f in case.ledger.findings if f.kind == "leak" and f.module == module]
    if module and known:
        return known[0]
    finding = describe(case, versus, leak, reach, inside, module)
    case.ledger.found(finding)
    return finding


def constants(case: Case, plan: Plan) -> None:
    """Fill the widest hidden side with one value, many values in turn: 28 changes, two forwards.

    A gate on a statistic of the sequence may open for few values, and only if all inputs hold them.
    """
    if not plan.wants("map"):
        return
    length = plan.lengths[-1] if plan.lengths[-1] <= WHOLE_MAP else plan.lengths[0]
    usual = hidden_changes(case.declared.reach(length), length)
    if usual and not case.noisy:
        widest = max(usual, key=lambda change: int(change.keys.sum()))
        extreme = range(DRAWS - 1 + DRAWS * length, DRAWS * (length + VALUES), DRAWS)
        leaks(case, length, [replace(widest, draw=draw) for draw in extreme])
        case.ledger.note(f"constants: {VALUES} values, each at all hidden inputs, length {length}")


def _in_double(case: Case, length: int, versus: Versus, changes: list[Change]) -> Finding | None:
    """Decide in float64 whether what moved by about epsilon is rounding."""
    small = limit(case.subject, versus.before)
    double = in_double(case)
    if double is None and (case.floor or small < 1e-12):
        case.ledger.note(f"{case.mode}: hidden inputs move outputs by less than {small:.0e} only")
        case.floor = small
        return None
    if double is None:
        case.ledger.cannot_decide(
            f"leaks below {small:.0e} of the outputs' scale",
            "hidden inputs move outputs by about epsilon, and no float64 copy can be run to tell",
        )
        return None
    try:
        found = leaks(double, length, changes)
    except Failed as failure:
        case.ledger.cannot_decide("rounding or fault", f"the float64 copy fails: {failure.detail}")
        return None
    if found is None:
        case.floor = max(case.floor, small)
        case.ledger.note(f"{case.mode}: hidden inputs move outputs by rounding only; float64 too")
    return found


def _alone(case: Case, versus: Versus, leak: Leak) -> bool:
    """Whether the leak shows in a batch of one row too, where no other row can bring it."""
    base, other = versus.base, apply(case, versus.base, leak.change)
    return bool(gap(case.run(base), case.run(other))[0, leak.change.still].max() > 0)


def at_fault(case: Case, versus: Versus, leak: Leak) -> str | None:
    """Name the module through which a leak enters, if hooks tell."""
    still = settled(case, leak.change.keys, versus.base.shape[1])
    if case.subject.module is None or not still.any():
        return None
    case.ledger.forwards += 2
    other = apply(case, versus.base, leak.change)
    return locate(case.subject, versus.base, other, still[None], case.floor)


def describe(
    case: Case, versus: Versus, leak: Leak, reach: np.ndarray, inside: Case, module: str | None
) -> Finding:
    """Say of a leak its first pair, cause and how to see it again; `inside` has the module."""
    length = len(reach)
    draw = leak.change.draw
    columns = np.arange(length) if length <= WHOLE_MAP else _some(leak.change.keys)
    sizes = np.zeros((length, length))
    sizes[:, columns] = alone(case, versus, columns, [draw])
    seen = (sizes > 0) & ~reach
    cause, detail = _why(inside, sizes, reach, module)
    cause = case.cause or cause
    keys, query = np.flatnonzero(leak.change.keys), leak.query
    if seen.any():
        query, key = (int(i) for i in np.argwhere(seen)[0])
        keys = np.array([key])
    return Finding(
        kind="leak", probe="suffix", mode=case.mode, length=length,
        pair=(query, int(keys[0])), size=float(leak.size), module=module, cause=cause,
        detail=detail, seed=case.seed, reproducer=replay.moving(
            case, length, keys, query, draw, f"must not move with {replay.positions(keys)}"
        ),
    )  # fmt: skip


def _why(case: Case, sizes: np.ndarray, reach: np.ndarray, module: str | None) -> Guess:
    """Guess from the map of the module at fault where it can be measured alone, else of all."""
    length = len(reach)
    if module and length <= WHOLE_MAP:
        part = module_of(case.subject, module)
        attends = attention_like(module, part)
        masks = case.declared.layers(length)
        mask = masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)
        try:
            alone_sizes = layer_map(case, part, length)
        except Failed:
            return of_leak(sizes, reach, module, attends)
        if ((alone_sizes > 0) & ~mask).any():
            return of_leak(alone_sizes, mask, module, attends)
        return of_leak(sizes, reach, module, attends)
    return of_leak(sizes, reach, module)


def settled(case: Case, keys: np.ndarray, length: int) -> np.ndarray:
    """Return the positions that these inputs reach through no number of layers.

    Nothing inside the model may move there.
    """
    return ~np.any(case.declared.closure(length)[:, keys], axis=1)


def _some(keys: np.ndarray) -> np.ndarray:
    """At most 64 of the changed keys: both ends and an even spread."""
    where = np.flatnonzero(keys)
    return where[np.unique(np.linspace(0, len(where) - 1, 64).astype(int))]
