"""What a model must not remember or read: an earlier request, a used cache, unwritten memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case, checked, gap, scale
from hitherto.audit.ledger import Failed
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import around
from hitherto.audit.stages import stage_length, staged, stages_of
from hitherto.audit.subject import Array, Subject

POISON = (3e4, -7e3)
"""Large finite values: a hidden NaN would reach the output of correct code too."""


def probe(case: Case, plan: Plan) -> None:
    """The same request again, after others; a cache used twice; memory never written."""
    length = stage_length(case, plan)
    if plan.wants("poison"):
        with case.ledger.probing("poison"):
            _unwritten(case, length)
    if case.noisy:
        case.ledger.miss("reuse, poison, generate", "outputs change from call to call")
        return
    if plan.wants("reuse"):
        with case.ledger.probing("reuse"):
            _history(case, length)
            _same_cache(case, length)
    if plan.wants("poison"):
        with case.ledger.probing("poison"):
            _unused_slots(case, length)
    if plan.wants("generate"):
        with case.ledger.probing("generate"):
            _greedy(case, length)


def _cuts(length: int) -> list[int]:
    return list(range(max(length // 2, 1), length))


def _compare(
    case: Case, one: Array, two: Array, code: Sequence[str], *, probe: str, cause: str, mode: str,
    detail: str,
) -> None:  # fmt: skip
    """Report outputs that should have the same bits and have not; `code` makes them as a and b."""
    one, two = (np.asarray(a).reshape(*np.shape(a)[:2], -1) for a in (one, two))
    if one.shape != two.shape:
        raise Failed("output does not follow the input", f"shapes {one.shape} and {two.shape}")
    sizes = gap(one, two).max(0) / scale(one)
    if np.isnan(sizes).any() or sizes.max() > case.floor:
        size = float(np.nan_to_num(sizes, nan=1e300).max())
        case.ledger.found(
            Finding(kind="unstable", probe=probe, mode=mode, length=one.shape[1],
                    size=min(size, 1e300), cause=cause, seed=case.seed,
                    detail=f"{detail}; output {int(np.argmax(sizes))} moves",
                    reproducer=replay.replay(
                        case, replay.base(case, one.shape[1]), *code,
                        "print(moved(a, b).max())  # the same bits are due",
                    ))
        )  # fmt: skip


def _history(case: Case, length: int) -> None:
    """The same request first and fourth."""
    x, others = case.base(length), [case.other(case.base(length), i) for i in range(2)]
    first = case.run(x)
    for other in others:
        case.run(other)
    code = (
        "a = subject.run(x)",
        f"for i in range(2): subject.run(changed(subject, x, {case.seed}, i))",
        "b = subject.run(x)",
    )
    _compare(case, first, case.run(x), code, probe="reuse", cause="state kept between calls",
             mode="eval", detail="the same request gives others after two others")  # fmt: skip
    case.ledger.note("reuse: the same request first and fourth")


def _same_cache(case: Case, length: int) -> None:
    stages = case.subject.stages
    if stages is None or stages.reuse is None:
        case.ledger.miss("second call with the same cache", "no cache that can be emptied")
        return
    x, other = case.base(length), case.other(case.base(length), 0)
    for kind in stages.kinds:
        with case.ledger.probing(f"second call with the same cache ({kind})"):
            fresh = _steps(case, x, kind)
            state = stages.start(1, kind)
            _steps(case, other, kind, state)
            again = _steps(case, x, kind, stages.reuse(state))
            _compare(case, fresh, again, _again(case, length, kind), probe="reuse",
                     cause="cache reused dirty", mode=f"second call ({kind})",
                     detail="an emptied cache gives other outputs than a new one")  # fmt: skip
            case.ledger.note(f"reuse: second call with the same {kind} cache")


def _again(case: Case, length: int, kind: str) -> tuple[str, ...]:
    rest = f"{kind!r}, {replay.positions(_cuts(length))}"
    return (
        f"a = staged(subject, x, {rest})",
        f"state = subject.stages.start(1, {kind!r})",
        f"staged(subject, changed(subject, x, {case.seed}, 0), {rest}, state)",
        f"b = staged(subject, x, {rest}, subject.stages.reuse(state))",
    )


def _steps(case: Case, x: Array, kind: str, state=None) -> Array:
    try:
        case.ledger.forwards += 1 + len(_cuts(x.shape[1]))
        return staged(case.subject, x, kind, _cuts(x.shape[1]), state)
    except Failed:
        raise
    except Exception as error:
        raise Failed("call fails", f"{type(error).__name__}: {error}") from error


def _unwritten(case: Case, length: int) -> None:
    """Fill what `torch.empty` gives with two values: outputs must not tell them apart."""
    if case.subject.module is None:
        case.ledger.miss("memory never written", "only torch's own memory can be filled")
        return
    x, stages = case.base(length), case.subject.stages
    runs = {"eval": (lambda subject: checked(subject.run, x), "subject.run(x)")}
    for kind in stages.kinds if stages else ():
        runs[f"decode ({kind})"] = (
            lambda subject, kind=kind: _steps(replace(case, subject=subject), x, kind),
            f"staged(subject, x, {kind!r}, {replay.positions(_cuts(length))})",
        )
    for mode, (run, code) in runs.items():
        with case.ledger.probing(f"memory never written ({mode})"):
            first, again, other = (
                run(around(case.subject, lambda value=value: filled(value)))
                for value in (POISON[0], *POISON)
            )
            case.ledger.forwards += 3
            if not np.array_equal(first, again):
                case.ledger.miss(f"memory never written ({mode})", "calls differ anyway")
                continue
            both = (
                f"with filled({v}): {name} = {code}" for v, name in zip(POISON, "ab", strict=True)
            )
            _compare(case, again, other, tuple(both), probe="poison",
                     cause="reads memory never written", mode=mode,
                     detail="outputs depend on what torch.empty holds")  # fmt: skip
            case.ledger.note(f"poison: memory never written ({mode})")


@contextmanager
def filled(value: float) -> Iterator[None]:
    """Fill every tensor that torch leaves uninitialised."""
    import torch
    from torch.overrides import TorchFunctionMode

    own = torch.Tensor
    empty = {torch.empty, torch.empty_strided, torch.empty_like, own.new_empty}

    class Filled(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out.fill_(value) if func in empty and out.is_floating_point() else out

    with Filled():
        yield


def _unused_slots(case: Case, length: int) -> None:
    stages = case.subject.stages
    if stages is None or stages.poison is None:
        case.ledger.miss("unused cache slots", "no cache whose unused slots can be filled")
        return
    x = case.base(length)
    for kind in stages.kinds:
        with case.ledger.probing(f"unused cache slots ({kind})"):
            clean = poisoned(case.subject, x, kind, 0.0)
            for value in POISON:
                code = (f"a, b = (poisoned(subject, x, {kind!r}, v) for v in (0.0, {value}))",)
                _compare(case, clean, poisoned(case.subject, x, kind, value), code,
                         probe="poison", cause="reads memory never written",
                         mode=f"decode ({kind})",
                         detail="outputs depend on unused slots of the cache")  # fmt: skip
            case.ledger.note(f"poison: unused slots of the {kind} cache")


def poisoned(subject: Subject, x: Array, kind: str, value: float) -> Array:
    """Give half to a cache, fill its unused slots with a value, and decode the rest."""
    stages = stages_of(subject)
    assert stages.poison is not None
    state, half = stages.start(len(x), kind), x.shape[1] // 2
    first = np.asarray(stages.step(state, x[:, :half]))
    stages.poison(state, value)
    rest = staged(subject, x[:, half:], kind, range(1, x.shape[1] - half), state)
    return np.concatenate([first, rest], axis=1)


def _greedy(case: Case, length: int) -> None:
    """Greedy generation must pick what the plain forward ranks first, ties aside."""
    stages = case.subject.stages
    if stages is None or stages.generate is None:
        case.ledger.miss("generate", "the model offers no greedy generation")
        return
    x = case.base(max(length // 2, 1))
    try:
        new = np.asarray(stages.generate(x, min(8, length)))
    except Exception as error:
        raise Failed("call fails", f"generate: {type(error).__name__}: {error}") from error
    whole = np.concatenate([x, new], axis=1)
    out = case.run(whole)[:, x.shape[1] - 1 : -1]
    chosen = np.take_along_axis(out, new[..., None], axis=-1)[..., 0]
    short = (out.max(-1) - chosen) / scale(out)
    case.ledger.note(f"generate: {new.shape[1]} greedy tokens against the plain forward")
    if short.max() > 1e-3:
        where = int(np.argwhere(short > 1e-3)[0, 1])
        case.ledger.found(
            Finding(kind="inconsistent", probe="generate", mode="generate",
                    length=whole.shape[1], size=float(short.max()), cause="stages disagree",
                    detail=f"new token {where} is not what the plain forward ranks first",
                    seed=case.seed, reproducer=_chosen(case, x.shape[1], new.shape[1]))
        )  # fmt: skip


def _chosen(case: Case, length: int, count: int) -> str:
    return replay.replay(
        case,
        replay.base(case, length),
        f"new = np.asarray(subject.stages.generate(x, {count}))",
        f"out = subject.run(np.concatenate([x, new], axis=1))[:, {length - 1}:-1]",
        "chosen = np.take_along_axis(out, new[..., None], axis=-1)[..., 0]",
        "print((out.max(-1) - chosen).max())  # logits by which the choice falls short",
    )
