"""Packed documents: each as if alone, in any slot, whatever stands in the others."""

import numpy as np

from hitherto.audit.agree import agree
from hitherto.audit.case import Case
from hitherto.audit.isolate import isolated, redrawn
from hitherto.audit.locate import first_differing
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import twin_of
from hitherto.audit.subject import Array, Subject

DOCUMENTS = ((5, 7), (1, 6, 1, 4), (6, 6))
"""Lengths of documents in a row; the same document fills both slots of the last."""


def probe(case: Case, plan: Plan) -> None:
    """Change one document and watch the others; compare each with itself alone."""
    if not plan.wants("packing"):
        return
    if case.subject.packed is None or case.noisy:
        noise = "outputs change from call to call"
        case.ledger.miss("packing", noise if case.noisy else "the model offers none")
        return
    with case.ledger.probing("packing"):
        same = distances_only(case)
        for lengths in DOCUMENTS:
            _pack(case, list(lengths), same)
        case.ledger.note(f"packing: documents of {', '.join(map(str, DOCUMENTS))}")


def packed(subject: Subject, x: Array, lengths: list[int]) -> Array:
    """Run a row of documents."""
    assert subject.packed is not None
    return subject.packed(x, lengths)


def distances_only(case: Case) -> bool:
    """Whether the declared masks are the same wherever a document starts."""
    same = all((g[1:, 1:] == g[:-1, :-1]).all() for g in case.declared.layers(24))
    if not same:
        why = "the declared mask counts from the start of the row"
        case.ledger.miss("packed documents against each alone", why)
    return same


def _pack(case: Case, lengths: list[int], same: bool) -> None:
    rng = np.random.default_rng(case.seed)
    parts = [case.subject.draw(rng, 1, n) for n in lengths]
    parts = [parts[0]] * len(lengths) if len(set(lengths)) == 1 else parts
    whole, ids = np.concatenate(parts, axis=1), np.repeat(np.arange(len(lengths)), lengths)[None]
    alone = True
    for document in range(len(lengths)):
        alone &= isolated(
            case, lambda s: lambda z: packed(s, z, lengths), whole,
            redrawn(case, whole, ids == document), ids != document,
            mode="packed", probe="packing", cause="documents see each other",
        )  # fmt: skip
    found = same and alone and agree(
        case, lambda s: np.concatenate([s.run(part) for part in parts], axis=1),
        lambda s: packed(s, whole, lengths),
    )  # fmt: skip
    if not found:
        return
    document = int(ids[0, found.position])
    case.ledger.found(
        Finding(
            kind="inconsistent", probe="packing", mode="packed", length=whole.shape[1],
            size=found.size, module=_module(case, parts[document], whole, lengths, ids == document),
            cause="position ids", seed=case.seed,
            detail=f"documents of {lengths} differ from each alone, at output {found.position}",
        )
    )  # fmt: skip


def _module(case: Case, part: Array, whole: Array, lengths: list[int], where: Array) -> str | None:
    subject = twin_of(case) or case.subject
    return first_differing(
        subject,
        lambda: subject.run(part),
        lambda: packed(subject, whole, lengths),
        (np.ones((1, part.shape[1]), bool), where),
        1e-9 if subject is not case.subject else 1e-3,
    )
