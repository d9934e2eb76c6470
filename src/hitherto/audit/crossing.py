"""Encoder and cross-attention: which source positions move which encoder states and outputs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from hitherto.audit.agree import agree
from hitherto.audit.case import Case, checked, gap, scale
from hitherto.audit.declared import compose, grid, through
from hitherto.audit.inside import change_rows, changing
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import first_stopping, record
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import limit
from hitherto.audit.subject import Array, Source
from hitherto.mask import Everything

LENGTHS = ((13, 9), (7, 12))
"""(source, target) lengths: never the same, one longer each way."""


def probe(case: Case, plan: Plan) -> None:
    """Measure both maps and compare them with what is declared; check padding of the source."""
    source = case.subject.source
    if source is None:
        return
    if not plan.wants("cross"):
        return
    states = plan.encoder.masks[0] if plan.encoder else Everything()
    reads = plan.cross.masks[0] if plan.cross else Everything()
    for s_len, t_len in LENGTHS:
        encoder = through(grid(states, s_len, s_len), None)
        if source.encode is not None:
            with case.ledger.probing("encoder"):
                _compare(case, "encoder", _map(case, source, source.encode, s_len), encoder,
                         through(grid(states, s_len, s_len), 1))  # fmt: skip
        target = case.subject.draw(np.random.default_rng(case.seed), 1, t_len)
        direct = grid(reads, t_len, s_len)
        reach = compose(compose(encoder, direct), case.declared.closure(t_len))
        if case.subject.module is not None and source.encode is not None:
            with case.ledger.probing("encoder states to outputs"):
                _states(case, source, s_len, target, direct)
        with case.ledger.probing("cross"):

            def run(x: Array, t: Array = target) -> Array:
                return source.run(x, np.repeat(t, len(x), 0))

            seen = _map(case, source, run, s_len, t_len)
            _compare(case, "cross", seen, reach, direct)
    if source.padded is not None:
        with case.ledger.probing("source padding"):
            _padding(case, source, source.padded)
    else:
        case.ledger.miss("source padding", "the model offers none")
    case.ledger.note(f"encoder and cross-attention: maps at (source, target) lengths {LENGTHS}")


def _map(case: Case, source: Source, run: Callable, s_len: int, q_len: int | None = None) -> Array:
    """Return sizes (queries, source positions)."""
    base = source.draw(np.random.default_rng(case.seed), 1, s_len)
    found = np.zeros((q_len or s_len, s_len))
    whole = np.repeat(base, s_len, axis=0)
    before = _called(run, whole, q_len)
    for draw in range(2):
        other = source.redraw(np.random.default_rng(case.seed + 1 + draw), base)
        rows = whole.copy()
        rows[np.arange(s_len), np.arange(s_len)] = other[0]
        found = np.maximum(found, (gap(before, _called(run, rows, q_len)) / scale(before)).T)
    case.ledger.forwards += 3
    return found


def _states(case: Case, source: Source, s_len: int, target: Array, direct: Array) -> None:
    """Change one encoder state at a time, behind the encoder, so that it cannot spread there."""
    root, t_len = case.subject.module, target.shape[1]
    assert source.encode is not None
    x = np.repeat(source.draw(np.random.default_rng(case.seed), 1, s_len), s_len, axis=0)
    rows = np.repeat(target, s_len, axis=0)
    states = checked(source.encode, x)
    before = record(root, lambda: source.run(x, rows))
    keys = [
        key for key, call in before.items()
        if any(t.shape == states.shape and np.array_equal(t.numpy(), states) for t in call.outputs)
    ]  # fmt: skip
    if not keys:
        raise Failed("call fails", "no module gives the encoder's states")
    plain = checked(lambda _: source.run(x, rows), rows)
    change = change_rows(np.arange(s_len), case.seed)
    for key in reversed(keys):
        with changing(root, *key, states.shape, change):
            moved = checked(lambda _: source.run(x, rows), rows)
            after = record(root, lambda: source.run(x, rows))
        case.ledger.forwards += 3
        sizes, module = (gap(plain, moved) / scale(plain)).T, None
        if sizes.any():
            break
    else:
        raise Failed("call fails", "no module whose output the decoder reads gives the states")
    missing = direct & (sizes == 0)
    if missing.any():
        query, key = (int(i) for i in np.argwhere(missing)[0])
        module = first_stopping(before, after, (s_len, t_len), key, query)
    _compare(case, "cross", sizes, np.ones_like(direct), direct, module)


def _called(run, x: Array, q_len: int | None) -> Array:
    shape = np.zeros((len(x), q_len or x.shape[1]))
    return checked(lambda _: run(x), shape)


def _compare(
    case: Case, name: str, sizes: Array, reach: Array, direct: Array, module: str | None = None
) -> None:
    small = limit(case.subject, np.zeros(1, np.float32)) if case.floor else 0.0
    seen = sizes > small
    leak, missing = seen & ~reach, direct & ~seen
    both: tuple[tuple[Literal["leak", "blind"], Array], ...] = (("leak", leak), ("blind", missing))
    for kind, cells in both:
        if cells.any():
            query, key = (int(i) for i in np.argwhere(cells)[0])
            case.ledger.found(
                Finding(kind=kind, probe=name, module=module, mode=name, length=len(seen),
                        pair=(query, key), size=float(sizes[cells].max()), seed=case.seed,
                        cause=_cause(cells, seen),
                        detail=f"{int(cells.sum())} of {cells.size} pairs, "
                        f"queries {len(seen)}, source positions {seen.shape[1]}")
            )  # fmt: skip


def _cause(cells: Array, seen: Array) -> str:
    triangle = np.tri(*seen.shape, dtype=bool)
    if (seen == triangle).all() or not (seen & ~triangle).any():
        return "wrong mask"
    dead = cells.all(1).any()
    return "sees no key" if dead else "wrong mask"


def _padding(case: Case, source: Source, padded: Callable) -> None:
    length = 9
    rng = np.random.default_rng(case.seed)
    x, target = source.draw(rng, 1, length), case.subject.draw(rng, 1, 7)
    whole = np.concatenate([x, source.draw(rng, 1, 4)], axis=1)
    real = np.arange(length + 4)[None] < length
    other = source.redraw(rng, whole)
    wide = real.reshape(*real.shape, *[1] * (whole.ndim - 2))
    one, two = (
        checked(lambda t, s=s: padded(s, real, t), target)
        for s in (whole, np.where(wide, whole, other))
    )
    case.ledger.forwards += 2
    size = float((gap(one, two) / scale(one)).max())
    found = agree(
        replace(case, subject=replace(case.subject, rebuild=None)),
        lambda s: source.run(x, target), lambda s: padded(whole, real, target),
    )  # fmt: skip
    seen = size > case.floor
    if seen or found:
        case.ledger.found(
            Finding(kind="leak" if seen else "inconsistent", probe="cross", mode="source padded",
                    length=length, size=size if seen or not found else found.size,
                    cause="pads are seen" if seen else "position ids", seed=case.seed)
        )  # fmt: skip
    case.ledger.note("source padding: 4 pads on the right")
