"""audit(model): run every probe that the model allows, and say what was and was not run."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hitherto.audit import replay
from hitherto.audit.adapt import CallFails, adapt, code_of
from hitherto.audit.case import Case
from hitherto.audit.declared import Declared
from hitherto.audit.leak import leaks
from hitherto.audit.ledger import Failed, Ledger
from hitherto.audit.plan import Plan, choose_lengths, choose_map_length
from hitherto.audit.probes import PROBES
from hitherto.audit.report import Finding, Report
from hitherto.audit.subject import Stages
from hitherto.errors import ModelError, explain
from hitherto.mask import Causal, Mask

Masks = Mask | Sequence[Mask] | Mapping[str, Mask | Sequence[Mask]]


def audit(
    model: Any,
    declared: Masks = Causal(),  # noqa: B008  (a frozen value)
    *,
    vocab: int | None = None,
    width: int | None = None,
    example: Any = None,
    lengths: Literal["auto"] | Sequence[int] = "auto",
    modes: Literal["auto", "all"] | Sequence[str] = "auto",
    time_axis: int | None = None,
    stages: Stages | Callable[[Any], Stages] | None = None,
    depth: int | None = None,
    seed: int = 0,
    full: bool = False,
) -> Report:
    """Measure which inputs move which outputs, in every mode, and compare with the declared mask.

    Args:
        model: a torch module, a function of one numpy array, or a Subject. It is not changed.
        declared: the mask of every layer; a sequence of masks, one a layer; or, for an
            encoder-decoder, a dict of "self", "cross" and "encoder".
        vocab: token ids are 0 .. vocab - 1; found in a module's config or embedding.
        width: floats of an input position, for models of floats.
        example: an input, instead of vocab and width.
        lengths: positions of the inputs; chosen around the model's sizes unless given.
        modes: names of what to run beside the plain forward (`PROBES` and modes of the model);
            "all" adds what is slow.
        time_axis: axis of the positions; found by trying unless given.
        stages: how to run the model with a cache, or a function of the module that returns it.
        depth: layers through which the declared mask composes; found for torch modules, 1 for
            functions.
        seed: of all inputs.
        full: measure the whole map at the longest length too.

    Returns:
        A report; it never says clean of a model that fails, changes or could not be run.

    Raises:
        ModelError: when the arguments do not say what to run.
        MaskError: when `declared` is no mask, or does not fit the lengths.
    Cost: six forwards of 16 rows a length for the plain forward, and again for each mode; three
        forwards for every 14 positions of the map.
    """
    started, ledger = time.perf_counter(), Ledger()
    given = {"vocab": vocab, "width": width, "example": example, "time_axis": time_axis}
    given["stages"] = stages
    parts = _parts(declared)
    try:
        subject = adapt(model, **given)
    except CallFails as failure:
        name = getattr(model, "__name__", type(model).__name__)
        ledger.found(
            Finding(
                kind="broken",
                probe="run",
                length=0,
                cause="call fails",
                detail=str(failure),
                seed=seed,
                reproducer="from hitherto.audit import adapt\n" + code_of(**given),
            )
        )
        return _report(ledger, name, declared, seed, started)
    sure, own = bool(depth) or subject.depth_sure, subject.kind == "ids"
    mask = Declared.of(parts["self"], depth or subject.depth, sure, own)
    case = Case(subject=subject, declared=mask, ledger=ledger, seed=seed)
    wanted = choose_lengths(subject, mask, ledger) if lengths == "auto" else sorted(set(lengths))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model's own, many times over
        measured = _run(case, wanted, parts, modes, full)
    return _report(ledger, subject.name, declared, seed, started, mask, measured)


def _run(
    case: Case, lengths: list[int], parts: Mapping[str, Any], modes: Any, full: bool
) -> np.ndarray | None:
    """Run the plain forward, then every probe; return the measured map, if any."""
    with case.ledger.timed("plain"):
        ran = _plain(case, lengths)
    if ran:
        side = {name: Declared.of(p, 1) for name, p in parts.items() if name != "self"}
        map_length = choose_map_length(case.subject, ran, full)
        plan = Plan(lengths=tuple(ran), map_length=map_length, modes=modes, **side)
        for name, probe in PROBES.items():
            with case.ledger.timed(name), case.ledger.probing(name):
                probe(case, plan)
        return case.maps.get(map_length)
    return None


def _parts(declared: Masks) -> Mapping[str, Any]:
    parts = declared if isinstance(declared, Mapping) else {"self": declared}
    if "self" not in parts or not parts.keys() <= {"self", "cross", "encoder"}:
        raise ModelError(
            explain("audit(declared)", 'must have "self", and may have "cross" and "encoder"',
                    list(parts), "name the masks so")
        )  # fmt: skip
    return parts


def _plain(case: Case, lengths: list[int]) -> list[int]:
    """Run the leak probe on the plain forward; return the lengths at which the model runs."""
    ran, failed = [], {}
    for length in lengths:
        try:
            leaks(case, length)
            ran.append(length)
        except Failed as failure:
            failed[length] = failure
            if case.rows > 1 and _runs_alone(case, length):
                leaks(case, length)
                ran.append(length)
                del failed[length]
    _tell_failures(case, ran, failed)
    if ran:
        case.ledger.note(f"eval: {_span(ran)}, hidden inputs changed, {case.rows} rows a forward")
    return ran


def _runs_alone(case: Case, length: int) -> bool:
    """Whether a model that fails on a batch takes a single row; if so, go on with that."""
    case.rows = 1
    try:
        case.run(case.base(length))
    except Failed:
        case.rows = 16
        return False
    case.ledger.miss("batches of several rows", "the model takes one row only")
    return True


def _tell_failures(case: Case, ran: list[int], failed: Mapping[int, Failed]) -> None:
    """A length that fails between lengths that run is a fault; outside them it is a limit."""
    for length, failure in failed.items():
        limits = ran and failure.cause == "call fails" and not min(ran) < length < max(ran)
        if limits:
            case.ledger.miss(f"length {length}", failure.detail)
            continue
        case.ledger.found(
            Finding(kind="broken", probe="run", length=length, cause=failure.cause,
                    detail=failure.detail, seed=case.seed,
                    reproducer=replay.replay(case, replay.base(case, length, case.rows),
                                             "print(subject.run(x).sum())"))
        )  # fmt: skip


def _span(lengths: list[int]) -> str:
    return (
        f"{len(lengths)} lengths from {lengths[0]} to {lengths[-1]}"
        if len(lengths) > 1
        else f"length {lengths[0]}"
    )


def _report(
    ledger: Ledger, name: str, declared: Masks, seed: int, started: float,
    mask: Declared | None = None, measured: np.ndarray | None = None,
) -> Report:  # fmt: skip
    undecided = "undecided" if ledger.undecided else "clean"
    return Report(
        subject=name, declared=_spell(declared), findings=tuple(ledger.findings),
        verdict="findings" if ledger.findings else undecided,
        covered=tuple(ledger.covered), not_covered=tuple(ledger.not_covered),
        forwards=ledger.forwards, seconds=time.perf_counter() - started, seed=seed,
        spent={name: s for name, s in ledger.spent.items() if s >= 0.001},
        declared_map=None if measured is None or mask is None else mask.reach(len(measured)),
        measured_map=None if measured is None else measured > 0,
    )  # fmt: skip


def _spell(declared: Masks) -> str:
    if isinstance(declared, Mapping):
        return "; ".join(f"{name}: {_spell(part)}" for name, part in declared.items())
    return (
        str(declared)
        if isinstance(declared, Mask)
        else " then ".join(dict.fromkeys(map(str, declared)))
    )
