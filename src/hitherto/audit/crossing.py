"""Encoder and cross-attention: which source positions move which encoder states and outputs."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import ROWS, Case, changed, checked, gap, scale
from hitherto.audit.compare import agree
from hitherto.audit.declared import compose, grid, through
from hitherto.audit.hooks import change_rows, changing
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import first_stopping, record
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_own_precision, limit
from hitherto.audit.subject import Array, Source, Subject
from hitherto.mask import Everything

LENGTHS = ((13, 9), (7, 12))
"""(source, target) lengths: never the same, one longer each way."""


def probe(case: Case, plan: Plan) -> None:
    """Measure both maps and compare them with what is declared; check padding of the source."""
    source = case.subject.source
    if source is None or not plan.wants("cross"):
        return
    states = plan.encoder.masks[0] if plan.encoder else Everything()
    reads = plan.cross.masks[0] if plan.cross else Everything()
    for s_len, t_len in LENGTHS:
        own, direct = grid(states, s_len, s_len), grid(reads, t_len, s_len)
        encoder = through(own, None)
        if source.encode is not None:
            with case.ledger.probing("encoder"):
                _map(case, "encoder", s_len, None, encoder, through(own, 1))
            if case.subject.module is not None:
                with case.ledger.probing("encoder states to outputs"):
                    _states(case, s_len, t_len, direct)
        with case.ledger.probing("cross"):
            reach = compose(compose(encoder, direct), case.declared.closure(t_len))
            _map(case, "cross", s_len, t_len, reach, direct)
    if source.padded is not None:
        with case.ledger.probing("source padding"):
            _padding(case, source, source.padded)
    else:
        case.ledger.miss("source padding", "the model offers none")
    case.ledger.note(f"encoder and cross-attention: maps at (source, target) lengths {LENGTHS}")


def _map(case: Case, name: str, s_len: int, t_len: int | None, reach: Array, direct: Array) -> None:
    sizes = source_map(case.subject, s_len, t_len, seed=case.seed)
    case.ledger.forwards += 3 * -(-s_len // ROWS)
    line = f"sizes = source_map(subject, {s_len}, {t_len}, seed={case.seed})"
    _compare(case, name, sizes, reach, direct, line)


def source_map(subject: Subject, s_len: int, t_len: int | None, *, seed: int = 0) -> Array:
    """Return how far each source position moves each output, or each encoder state.

    Args:
        subject: an encoder-decoder.
        s_len: positions of the source.
        t_len: positions of the target; None for the encoder's own map.
        seed: of the inputs.

    Returns:
        Sizes (outputs or states, source positions); 0 = not a bit.

    Raises:
        Failed: when the model cannot be run so.
    Cost: three forwards of s_len rows.
    """
    source = subject.source
    assert source is not None
    base = source.draw(np.random.default_rng(seed), 1, s_len)
    target = None if t_len is None else subject.draw(np.random.default_rng(seed), 1, t_len)

    def run(x: Array) -> Array:
        if target is not None:
            rows = np.repeat(target, len(x), axis=0)
            return checked(lambda y: source.run(x, y), rows)
        assert source.encode is not None
        return checked(source.encode, x)

    whole, order = np.repeat(base, s_len, axis=0), np.arange(s_len)
    before, found = run(whole), np.zeros((t_len or s_len, s_len))
    for draw in range(2):
        rows = whole.copy()
        rows[order, order] = changed(source, base, seed, draw)[0]
        found = np.maximum(found, (gap(before, run(rows)) / scale(before)).T)
    return found


def _states(case: Case, s_len: int, t_len: int, direct: Array) -> None:
    """Compare what outputs read of the encoder's states with the declared cross-attention."""
    sizes, before, after = _behind(case, s_len, t_len)
    missing, module = direct & (sizes == 0), None
    if missing.any():
        query, key = (int(i) for i in np.argwhere(missing)[0])
        module = first_stopping(before, after, (s_len, t_len), key, query)
    line = f"sizes = state_map(subject, {s_len}, {t_len}, seed={case.seed})"
    _compare(case, "cross", sizes, np.ones_like(direct), direct, line, module)


def state_map(subject: Subject, s_len: int, t_len: int, *, seed: int = 0) -> Array:
    """Return how far each encoder state, changed behind the encoder, moves each output.

    Args:
        subject: an encoder-decoder with a module.
        s_len: positions of the source.
        t_len: positions of the target.
        seed: of the inputs.

    Returns:
        Sizes (outputs, states); 0 = not a bit.

    Raises:
        Failed: when no module gives the encoder's states.
    """
    return _behind(Case(subject=subject, seed=seed), s_len, t_len)[0]


def _behind(case: Case, s_len: int, t_len: int) -> tuple[Array, Any, Any]:
    """Change one encoder state at a time, behind the encoder, so that it cannot spread there.

    Returns:
        Sizes (outputs, states), and the calls of all modules before and after the change.
    """
    root, source = case.subject.module, case.subject.source
    assert source is not None
    assert source.encode is not None
    x = np.repeat(source.draw(np.random.default_rng(case.seed), 1, s_len), s_len, axis=0)
    rows = np.repeat(case.base(t_len), s_len, axis=0)
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
        sizes = (gap(plain, moved) / scale(plain)).T
        if sizes.any():
            return sizes, before, after
    raise Failed("call fails", "no module whose output the decoder reads gives the states")


def _compare(
    case: Case, name: str, sizes: Array, reach: Array, direct: Array, line: str,
    module: str | None = None,
) -> None:  # fmt: skip
    """Compare a map with what may matter, and with what must; `line` is Python that makes it."""
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
                        f"queries {len(seen)}, source positions {seen.shape[1]}",
                        reproducer=replay.replay(
                            case, line, f"print(sizes[{query}, {key}])  # {_SAYS[kind]}"
                        ))
            )  # fmt: skip


_SAYS = {"leak": "hidden, but moves", "blind": "visible, but never moves"}


def _cause(cells: Array, seen: Array) -> str:
    triangle = np.tri(*seen.shape, dtype=bool)
    if (seen == triangle).all() or not (seen & ~triangle).any():
        return "wrong mask"
    dead = cells.all(1).any()
    return "sees no key" if dead else "wrong mask"


def _padding(case: Case, source: Source, padded: Callable) -> None:
    """Four pads behind a source of nine: whatever they hold, and against none."""
    length, pads = 9, range(9, 13)
    whole, target = source.draw(np.random.default_rng(case.seed), 1, 13), case.base(7)
    real = ~np.isin(np.arange(13), pads)[None]
    other = changed(source, whole, case.seed, 0, pads)
    one, two = (checked(lambda t, s=s: padded(s, real, t), target) for s in (whole, other))
    case.ledger.forwards += 2
    size = float((gap(one, two) / scale(one)).max())
    found = agree(
        in_own_precision(case),
        lambda s: source.run(whole[:, :length], target), lambda s: padded(whole, real, target),
    )  # fmt: skip
    seen = size > case.floor
    if seen or found:
        case.ledger.found(
            Finding(kind="leak" if seen else "inconsistent", probe="cross", mode="source padded",
                    length=length, size=size if seen or not found else found.size,
                    cause="pads are seen" if seen else "position ids", seed=case.seed,
                    reproducer=_padded_source(case, pads, seen))
        )  # fmt: skip
    case.ledger.note("source padding: 4 pads on the right")


def _padded_source(case: Case, pads: range, seen: bool) -> str:
    other = (
        f"source.padded(changed(source, x, {case.seed}, 0, {pads}), real, y)"
        if seen
        else f"source.run(x[:, :{pads.start}], y)"
    )
    drawn = (
        "source = subject.source",
        f"x = source.draw(np.random.default_rng({case.seed}), 1, {pads.stop})",
        f"y = subject.draw(np.random.default_rng({case.seed}), 1, 7)",
        f"real = ~np.isin(np.arange({pads.stop}), {pads})[None]",
    )
    says = "other values at the pads" if seen else "with and without pads"
    return replay.pair(case, drawn, "source.padded(x, real, y)", other, ":", says)
