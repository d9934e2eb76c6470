"""Modes: other ways to run the same weights. Each is a Subject that must obey the same mask."""

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from hitherto.audit import replay
from hitherto.audit.case import Case
from hitherto.audit.compare import agree
from hitherto.audit.guess import SCORES
from hitherto.audit.inside import mixers
from hitherto.audit.leak import leaks
from hitherto.audit.ledger import Failed
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_own_precision, twin
from hitherto.audit.subject import Array, Subject
from hitherto.errors import ModelError, explain

USUAL = ("train", "bfloat16", "batch 1", "scaled")
"""Modes of every torch module, run by "auto"."""
SLOW = ("float64", "compiled")
"""Modes run by name, or by "all"."""
SEEDS = 5
"""Inputs tried with scaled scores: a finite fill shows only where all that is visible is lower."""
ROW_NORM = 20.0
"""Rows of query and key weights get this norm: scores then spread by some hundreds."""


def mode(subject: Subject, name: str) -> Subject:
    """Return a subject in a mode: "eval" is itself.

    Raises:
        ModelError: when there is no such mode, or the model cannot be copied into it.
    """
    if name in ("eval", "batch 1"):
        return subject
    if name in subject.variants:
        return subject.variants[name]()
    if name == "float64" and (double := twin(subject)):
        return double
    if subject.module is None or subject.rebuild is None or name not in USUAL + SLOW:
        raise ModelError(
            explain("mode(name)", "must be a mode of this model", name,
                    f"use one of {['eval', *subject.variants, *USUAL, *SLOW]}; most need a module")
        )  # fmt: skip
    paths = _mixing(subject) if name == "scaled" else ()
    return subject.rebuild(_copied(subject.module, name, paths))  # type: ignore[arg-type]


def _mixing(subject: Subject) -> list[str]:
    """Paths of the modules that mix positions, where scores may hide under any name."""
    return list(mixers(Case(subject=subject), max(subject.min_length, 8)))


def _copied(module, name: str, paths: Sequence[str] = ()):
    import torch

    other = copy.deepcopy(module)
    match name:
        case "train":
            return other.train()
        case "bfloat16":
            return other.eval().to(torch.bfloat16)
        case "compiled":
            return torch.compile(other.eval())
        case "scaled":
            scale_scores(other, paths)
    return other.eval()


def scale_scores(module, paths: Sequence[str]) -> int:
    """Scale, in place, the weights that make queries and keys, so that scores spread by hundreds.

    Where a module that mixes positions has no weight of such a name, all its weights are scaled.
    Returns how many weights were scaled.
    """
    import torch

    count = 0
    with torch.no_grad():
        for name, weight in module.named_parameters():
            owner = re.sub(r"\.(weight|base_layer\.weight)$", "", name)
            if weight.is_floating_point() and not name.endswith("bias") and SCORES.search(owner):
                rows = weight.flatten(1).norm(dim=1) if weight.ndim > 1 else weight.abs()
                weight.mul_(ROW_NORM / max(float(rows.mean()), 1e-6))
                count += 1
        for path in paths:
            weights = dict(module.get_submodule(path).named_parameters())
            if not any(SCORES.search(re.sub(r"\.weight$", "", name)) for name in weights):
                for weight in weights.values():
                    if weight.ndim > 1:
                        weight.mul_(
                            ROW_NORM / max(float(weight.flatten(1).norm(dim=1).mean()), 1e-6)
                        )
                        count += 1
    return count


def probe(case: Case, plan: Plan) -> None:
    """Run the leak probe in every mode, and compare those that must give the same outputs."""
    own = [n for n in USUAL if plan.wants(n)] + [n for n in SLOW if plan.wants(n, slow=True)]
    copies = [n for n in own if n != "batch 1"]
    if copies and case.subject.rebuild is None:
        case.ledger.miss(", ".join(copies), "these need a torch module that can be copied")
        own = [n for n in own if n == "batch 1"]
    if plan.modes == "auto" and case.subject.rebuild is not None:
        case.ledger.miss(", ".join(SLOW), 'slow: run by modes="all" or by name')
    for name in (*own, *(n for n in case.subject.variants if plan.wants(n))):
        with case.ledger.probing(name):
            _run(case, plan, name)


def _run(case: Case, plan: Plan, name: str) -> None:
    try:
        subject = mode(case.subject, name)
    except Exception as error:
        raise Failed("call fails", f"{type(error).__name__}: {error}") from error
    other = replace(
        case, subject=subject, mode=name, rows=1 if name == "batch 1" else case.rows, maps={},
        strict=name == "bfloat16" and not case.floor, varies=name == "train",
        cause="finite mask value" if name == "scaled" else None,
    )  # fmt: skip
    if name == "scaled" and not _scalable(case):
        return
    broken = []
    tries = SEEDS if name == "scaled" else 1
    for length, seed in product(plan.short, range(case.seed, case.seed + tries)):
        other.seed = seed
        try:
            if leaks(other, length):
                break
        except Failed as failure:
            broken.append((length, failure))
    if len(broken) == len(plan.short) * tries:
        raise broken[0][1]
    for length, failure in broken:
        case.ledger.miss(f"{name}, length {length}", failure.detail)
    case.ledger.note(
        f"{name}: {len(plan.short)} lengths up to {plan.short[-1]}, hidden inputs changed"
    )
    if case.noisy:
        return
    if name in case.subject.variants or name in ("compiled", "batch 1"):
        # To compile a float64 copy as well would take as long again.
        whole = in_own_precision(case) if name == "compiled" else case
        made = {id(whole.subject): subject}
        for length in plan.short:
            _compare(whole, name, made, length)


def _scalable(case: Case) -> bool:
    """Whether scaled scores can tell more than the plain forward did."""
    if any(f.kind == "leak" and f.mode == "eval" for f in case.ledger.findings):
        case.ledger.miss("scaled", "the plain forward leaks already")
        return False
    return True


def _compare(case: Case, name: str, made: dict[int, Subject], length: int) -> None:
    """The same input in this mode and in the plain forward must give the same outputs.

    `made` holds subjects in this mode, by the id of the plain one: it and its float64 copy.
    """
    x = case.base(length)
    whole = x.repeat(case.rows, axis=0)

    def there(plain: Subject) -> Array:
        if id(plain) not in made:
            made[id(plain)] = mode(plain, name)
        return made[id(plain)].run(x)

    found = agree(case, lambda plain: plain.run(whole)[:1], there)
    if found:
        case.ledger.found(
            Finding(kind="inconsistent", probe="modes", mode=name, length=length, size=found.size,
                    pair=None, cause="modes disagree", seed=case.seed,
                    detail=f"output {found.position} differs from the plain forward",
                    reproducer=replay.pair(
                        case, [replay.base(case, length)],
                        f"subject.run(np.repeat(x, {case.rows}, axis=0))[:1]",
                        f"mode(subject, {name!r}).run(x)", f"0, {found.position}",
                        "the same input in two modes", found.double,
                    ))
        )  # fmt: skip
