"""Truncation: the start of a sequence must give the same with or without what follows."""

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case
from hitherto.audit.compare import agree
from hitherto.audit.isolate import module_between
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding


def probe(case: Case, plan: Plan) -> None:
    """Compare the outputs of a prefix with those of the whole, decided in float64.

    Perturbation keeps the shapes, and so cannot see that a model counts from the end or scales by
    the length. Cuts over which the declared mask looks ahead are left out.
    """
    if not plan.wants("truncation") or case.noisy:
        return
    length = plan.short[-1]
    closure, least = case.declared.closure(length), plan.lengths[0]
    cuts = [n for n in {least, length // 2, length - 1} if least <= n < length]
    cuts = [n for n in sorted(cuts) if not closure[:n, n:].any()]
    for cut in cuts:
        with case.ledger.probing(f"truncation at {cut} of {length}"):
            if _cut(case, length, cut):
                break
    if cuts:
        case.ledger.note(f"truncation: {length} positions cut at {', '.join(map(str, cuts))}")


def _cut(case: Case, length: int, cut: int) -> bool:
    x = case.base(length)
    found = agree(case, lambda s: s.run(x)[:, :cut], lambda s: s.run(x[:, :cut]))
    if not found:
        return False
    where = np.arange(length)[None] < cut, np.ones((1, cut), bool)
    module = module_between(case, lambda s: s.run(x), lambda s: s.run(x[:, :cut]), where)
    case.ledger.found(
        Finding(
            kind="inconsistent", probe="truncation", length=length, size=found.size,
            module=module, cause="depends on the length", seed=case.seed,
            detail=f"the first {cut} of {length} positions alone give another output "
            f"{found.position}",
            reproducer=replay.pair(
                case, [replay.base(case, length)], f"subject.run(x)[:, :{cut}]",
                f"subject.run(x[:, :{cut}])", f"0, {found.position}",
                "with and without what follows", found.double,
            ),
        )
    )  # fmt: skip
    return True
