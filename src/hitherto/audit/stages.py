"""Cached stages must say what the plain forward says, for every cache and every small cut.

Prefill, chunked prefill, decode, and several tokens at once on a cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import ROWS, Case
from hitherto.audit.compare import Disagreement, agree
from hitherto.audit.influence import influence
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import first_differing
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import twin_of
from hitherto.audit.subject import Array, Stages, Subject

SMALL_CUTS = 8
"""Every cut up to here is tried; beyond, some."""
LONGEST = 70
"""Positions at most, unless the model's sizes ask for more."""


def probe(case: Case, plan: Plan) -> None:
    """Compare every way to cut a sequence, with every cache offered, with the plain forward."""
    if not plan.wants("stages"):
        return
    stages = case.subject.stages
    if stages is None:
        case.ledger.miss("stages", "the model offers no cache; pass stages= to run it with one")
        return
    if case.noisy:
        case.ledger.miss("stages", "outputs change from call to call")
        return
    length = stage_length(case, plan)
    for kind in stages.kinds:
        done, told = [], set()
        for name, cuts in cuttings(case, length, brief=kind != stages.kinds[0]):
            if (way := _way(name)) in told:
                continue
            with case.ledger.probing(stage_name(name, kind, stages.kinds)):
                if not _compare(case, length, name, kind, cuts):
                    told.add(way)
                done.append(name)
        if done:
            case.ledger.note(f"stages, {kind} cache, length {length}: {', '.join(done)}")


def _way(name: str) -> tuple[str, bool]:
    """Prefill, chunks, decode, ...: of each, the first cut that differs is told."""
    return name.split()[0], "decode" in name


def stage_length(case: Case, plan: Plan) -> int:
    """Return the length for stages: twice beyond the sizes of the model, within `LONGEST`."""
    sizes = [n for n in case.subject.sizes if 2 * n + 3 <= LONGEST]
    wanted = max([17, *(2 * n + 3 for n in sizes)])
    return max(min(wanted, plan.lengths[-1]), plan.lengths[0])


def stage_name(name: str, kind: str, kinds: tuple[str, ...]) -> str:
    """Name a way to cut with a cache that is not the first."""
    return name if kind == kinds[0] else f"{name} ({kind})"


def cuttings(case: Case, length: int, brief: bool) -> Iterator[tuple[str, list[int]]]:
    """Yield ways to cut a sequence: their names, and where a new piece begins.

    Cuts over which the declared mask looks ahead are left out.
    """
    closure = case.declared.closure(length)
    legal = {c for c in range(1, length) if not closure[:c, c:].any()}
    ways = {"prefill": []}
    ways |= {f"chunks of {n}": list(range(n, length, n)) for n in (2, 3, 7, 16) if n < length}
    ways["decode"] = list(range(1, length))
    middle = length // 2
    ways["several tokens on a cache"] = list(range(middle, length, 3))
    if not brief:
        near = {n + d for n in case.subject.sizes for d in (-1, 0, 1)}
        some = {*range(1, SMALL_CUTS + 1), middle, length - 2, length - 1, *near}
        ways |= {f"prefill {c}, then the rest": [c] for c in sorted(some) if 0 < c < length}
        ways |= {
            f"prefill {c}, then decode": list(range(c, length))
            for c in (1, 5, middle)
            if c < length
        }
    for name, cuts in ways.items():
        if set(cuts) <= legal:
            yield name, cuts


def stages_of(subject: Subject) -> Stages:
    """Return the stages of a subject that has some.

    Raises:
        Failed: when it has none, as a copy of a model whose stages were given ready-made.
    """
    if subject.stages is None:
        raise Failed("call fails", "no stages")
    return subject.stages


def staged(subject: Subject, x: Array, kind: str, cuts: Sequence[int], state: Any = None) -> Array:
    """Give a sequence piece by piece; return the outputs of all positions."""
    stages = stages_of(subject)
    state = stages.start(len(x), kind) if state is None else state
    edges = [0, *cuts, x.shape[1]]
    pieces = [np.asarray(stages.step(state, x[:, i:j])) for i, j in pairwise(edges)]
    out = np.concatenate(pieces, axis=1)
    if out.shape[:2] != x.shape[:2]:
        raise Failed("output does not follow the input",
                     f"steps of {x.shape[1]} tokens give outputs of shape {out.shape}")  # fmt: skip
    return out


def _compare(case: Case, length: int, name: str, kind: str, cuts: list[int]) -> bool:
    """Return whether a way to cut agrees with the plain forward; report it if not."""
    x = np.concatenate([case.base(length), case.other(case.base(length), 0)])
    stages = stages_of(case.subject)
    case.ledger.forwards += 1 + len(cuts)
    found = agree(
        case, lambda s: s.run(x), lambda s: staged(s, x, kind, cuts),
        both=name in ("prefill", "decode"),
    )  # fmt: skip
    if not found or kind in stages.lossy:
        return True
    mode = stage_name(name, kind, stages.kinds)
    case.ledger.found(_finding(case, length, mode, kind, cuts, found, x))
    return False


def _finding(
    case: Case, length: int, mode: str, kind: str, cuts: list[int], found: Disagreement, x: Array
) -> Finding:
    cause, detail, pair = _cause(case, length, kind, cuts)
    return Finding(
        kind="inconsistent", probe="stages", mode=mode, length=length, pair=pair,
        size=found.size, module=_module(case, kind, cuts, found.position, x), cause=cause,
        detail=f"first seen at output {_first(case, found)}; {detail}", seed=case.seed,
        reproducer=_replay(case, length, kind, cuts, found),
    )  # fmt: skip


def _first(case: Case, found: Disagreement) -> int:
    return int(np.flatnonzero(found.sizes > 1e-3 * found.sizes.max())[0])


def _cause(
    case: Case, length: int, kind: str, cuts: list[int]
) -> tuple[str, str, tuple[int, int] | None]:
    """Compare the map of the stage with that of the plain forward."""
    stage = replace(
        case, subject=as_subject(case.subject, kind, cuts), maps={}, rows=min(case.rows, ROWS)
    )
    try:
        there = influence(stage, length, draws=1) > 0
    except Failed:
        return "stages disagree", "its map could not be measured", None
    here = influence(case, length) > 0
    more, less = there & ~here, here & ~there
    if not more.any() and not less.any():
        return "cache offset", "the same pairs move, by other amounts: positions or scores", None
    query, key = (int(i) for i in np.argwhere(more | less)[0])
    detail = f"{int(more.sum())} pairs only with a cache, {int(less.sum())} only without"
    return _shape(there, more, less, cuts), detail, (query, key)


def _shape(there: Array, more: Array, less: Array, cuts: list[int]) -> str:
    """Name the cause by the pairs that move with a cache only, or without one only."""
    q, k = np.indices(there.shape)
    start = np.array([0, *cuts])[np.searchsorted(cuts, q, "right")]
    seen = there & (k != q) & (start > 0)
    if (more & (k > q)).any():
        return "prefill ignores the mask"
    if not less.any():
        return "window applied at one stage only"
    if seen.any() and not (seen & (k > q - start)).any():
        return "top-left alignment"
    return "stages disagree" if (seen & (k < start)).any() else "cache ignored"


def as_subject(subject: Subject, kind: str, cuts: list[int]) -> Subject:
    """Return the stage as a subject of its own: the same function, computed piece by piece."""
    return replace(
        subject, run=lambda x: staged(subject, x, kind, cuts), graph=None, rebuild=None,
        stages=None, variants={},
    )  # fmt: skip


def _module(case: Case, kind: str, cuts: list[int], position: int, x: Array) -> str | None:
    """Name the first module that does something else to one piece than the plain forward does."""
    subject = twin_of(case)
    if subject is None or subject.stages is None:
        subject = case.subject
    edges = [0, *cuts, x.shape[1]]
    piece = int(np.searchsorted(edges, position, "right")) - 1
    start, stop = edges[piece], edges[piece + 1]
    tolerance = 1e-9 if subject is not case.subject else 1e-3
    where = np.arange(stop)[None] >= start, np.ones((1, stop - start), bool)
    try:
        stages = stages_of(subject)
        state = stages.start(1, kind)
        for i, j in pairwise(edges[: piece + 1]):
            stages.step(state, x[:1, i:j])
        return first_differing(
            subject,
            lambda: subject.run(x[:1, :stop]),
            lambda: stages.step(state, x[:1, start:stop]),
            where,
            tolerance,
        )
    except Exception:
        return None


def _replay(case: Case, length: int, kind: str, cuts: list[int], found: Disagreement) -> str:
    steps = f"staged(subject, x, {kind!r}, {replay.positions(cuts)})"
    drawn = [
        replay.base(case, length),
        f"x = np.concatenate([x, changed(subject, x, {case.seed}, 0)])",
        f"{steps}  # an earlier session must not matter",
    ]
    return replay.pair(
        case, drawn, "subject.run(x)", steps, f":, {found.position}",
        "the plain forward, and piece by piece", found.double,
    )  # fmt: skip
