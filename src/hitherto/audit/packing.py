"""Packed documents: each as if alone, in any slot, in any row, whatever stands in the others."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case
from hitherto.audit.compare import agree
from hitherto.audit.isolate import Way, differs, isolated, module_between
from hitherto.audit.plan import Plan
from hitherto.audit.subject import Array, Subject

DOCUMENTS = ([[5, 7]], [[1, 6, 1, 4]], [[6, 6]], [[5, 7], [7, 5]])
"""Lengths of the documents of each row; of [6, 6], the same document fills both slots."""
Lengths = Sequence[Sequence[int]]


def probe(case: Case, plan: Plan) -> None:
    """Change one document and watch the others; compare each with itself alone."""
    if not plan.wants("packing"):
        return
    doors = {"packed": "packed", "packed_masked": "packed, all-ones mask"}
    offered = {door: mode for door, mode in doors.items() if getattr(case.subject, door)}
    if not offered or case.noisy:
        noise = "outputs change from call to call"
        case.ledger.miss("packing", noise if case.noisy else "the model offers none")
        return
    same = distances_only(case)
    for door, mode in offered.items():
        for lengths in DOCUMENTS:
            rows = "" if len(lengths) == 1 else f", {len(lengths)} rows"
            with case.ledger.probing(f"packing{rows}"):
                _pack(case, door, mode, lengths, same)
        case.ledger.note(f"packing: {mode}, documents of {', '.join(map(str, DOCUMENTS))}")


def apart(subject: Subject, x: Array, lengths: Lengths) -> Array:
    """Run every document of every row by itself; return the outputs as the rows have them."""
    return np.concatenate(
        [
            np.concatenate([subject.run(part) for part in np.split(row, np.cumsum(own)[:-1], 1)], 1)
            for row, own in zip(np.split(x, len(x)), lengths, strict=True)
        ]
    )


def distances_only(case: Case) -> bool:
    """Whether the declared masks are the same wherever a document starts."""
    same = all((g[1:, 1:] == g[:-1, :-1]).all() for g in case.declared.layers(24))
    if not same:
        why = "the declared mask counts from the start of the row"
        case.ledger.miss("packed documents against each alone", why)
    return same


def _pack(case: Case, door: str, mode: str, lengths: Lengths, same: bool) -> None:
    x, made = _rows(case, lengths)
    ids = np.stack([np.repeat(np.arange(len(own)), own) for own in lengths])
    way = Way(
        probe="packing", mode=mode, made=made,
        run=lambda s, z: getattr(s, door)(z, lengths), code=f"subject.{door}({{x}}, {lengths})",
        alone=lambda s, z: apart(s, z, lengths), alone_code=f"apart(subject, x, {lengths})",
    )  # fmt: skip
    isolates = True
    for start, stop in pairwise(sorted({0, *(e for own in lengths for e in np.cumsum(own))})):
        still = ids != ids[:, [start]]
        isolates &= isolated(
            case, way, x, np.arange(start, stop), still, "documents see each other"
        )
    if not (same and isolates):
        return
    found = agree(case, lambda s: way.alone(s, x), lambda s: way.run(s, x))
    if found:
        module = _module(case, way, x, ids, found.position)
        differs(case, way, x, found, module, f"documents of {lengths} differ from each alone")


def _rows(case: Case, lengths: Lengths) -> tuple[Array, tuple[str, ...]]:
    """Return rows to pack, and Python that makes them as x."""
    first, total = lengths[0][0], sum(lengths[0])
    if len(set(lengths[0])) == 1:
        x = case.base(first)
        twice = "x = np.concatenate([x, x], axis=1)"
        return np.concatenate([x, x], axis=1), (replay.base(case, first), twice)
    x = case.subject.draw(np.random.default_rng(case.seed), len(lengths), total)
    return x, (replay.base(case, total, len(lengths)),)


def _module(case: Case, way: Way, x: Array, ids: Array, position: int) -> str | None:
    """Name the first module that does something else to a document when it is packed."""
    for row in range(len(x)):
        where = np.zeros_like(ids, bool)
        where[row] = ids[row] == ids[row, position]
        part = x[row : row + 1, where[row]]
        both = np.ones((1, part.shape[1]), bool), where
        module = module_between(
            case, lambda s, part=part: s.run(part), lambda s: way.run(s, x), both
        )
        if module:
            return module
    return None
