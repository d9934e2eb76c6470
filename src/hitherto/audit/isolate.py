"""Change what must not matter, beside what must stay: pads, other documents."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case, Positions, checked, gap, scale
from hitherto.audit.compare import Disagreement
from hitherto.audit.locate import first_differing, locate
from hitherto.audit.report import Finding
from hitherto.audit.rounding import SMALL, small_enough, twin_of
from hitherto.audit.subject import Array, Subject


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to run whole rows: with these pads, or packed so."""

    probe: str
    """Name of the probe that runs it."""
    mode: str
    """What findings call it."""
    run: Callable[[Subject, Array], Array]
    """(subject, rows (batch, length, ...)) -> outputs (batch, length, outputs)."""
    made: tuple[str, ...]
    """Python that makes x, and what else `code` needs, for reproducers."""
    code: str
    """Python of `run`, with "{x}" for the rows."""
    alone: Callable[[Subject, Array], Array]
    """As `run`, but what is real by itself: without pads, each document alone."""
    alone_code: str
    """Python of `alone` on x."""
    real: str = ""
    """Python that cuts outputs of `run` to those of `alone`, where these are fewer."""

    def on(self, x: str) -> str:
        """Spell `run` on rows of this name."""
        return self.code.format(x=x)


def isolated(
    case: Case, way: Way, x: Array, keys: Positions, still: Array, cause: str
) -> bool:  # fmt: skip
    """Change some positions of all rows; report it if outputs move that must not.

    The shapes are the same, so bits count; movements of about epsilon are decided in float64.

    Args:
        case: the subject.
        way: how to run it.
        x: the rows.
        keys: the positions that change.
        still: bool (batch, length): outputs that must not move.
        cause: the likely cause if something moves.
    """
    y = case.other(x, 0, keys)
    one, two = (checked(lambda z: way.run(case.subject, z), z) for z in (x, y))
    case.ledger.forwards += 2
    sizes = np.where(still, gap(one, two) / scale(one), 0)
    size = float(sizes.max())
    if size == 0 or (small_enough(case, one, size) and _rounds(case, way, x, y, still)):
        return True
    row, query = (int(i) for i in np.unravel_index(np.argmax(sizes), sizes.shape))
    first = int(np.arange(x.shape[1])[keys][0])
    inside = replace(case.subject, run=lambda z: way.run(case.subject, z))
    case.ledger.found(
        Finding(
            kind="leak", probe=way.probe, mode=way.mode, length=x.shape[1], pair=(query, first),
            size=min(size, 1e300), module=locate(inside, x, y, still, case.floor), cause=cause,
            detail=f"{int((sizes > 0).sum())} outputs move that must not", seed=case.seed,
            reproducer=replay.pair(
                case, [*way.made, replay.other(case, np.arange(x.shape[1])[keys], 0)], way.on("x"),
                way.on("y"), f"{row}, {query}", f"output {query} must not move",
            ),
        )
    )  # fmt: skip
    return False


def differs(
    case: Case, way: Way, x: Array, found: Disagreement, module: str | None, detail: str
) -> None:
    """Report rows that differ from what is real by itself."""
    case.ledger.found(
        Finding(
            kind="inconsistent", probe=way.probe, mode=way.mode, length=x.shape[1],
            size=found.size, module=module, cause="position ids", seed=case.seed,
            detail=f"{detail}, first at output {found.position}",
            reproducer=replay.pair(
                case, way.made, way.alone_code, way.on("x") + way.real, f":, {found.position}",
                "by itself, and so", found.double,
            ),
        )
    )  # fmt: skip


def module_between(
    case: Case, one: Callable[[Subject], Array], other: Callable[[Subject], Array],
    where: tuple[Array, Array],
) -> str | None:  # fmt: skip
    """Name the first module that does something else to the same tokens in another setting.

    `where` holds, for each run, bool (batch, length): the positions of these tokens.
    """
    subject = twin_of(case) or case.subject
    tolerance = 1e-9 if subject is not case.subject else 1e-3
    return first_differing(subject, lambda: one(subject), lambda: other(subject), where, tolerance)


def _rounds(case: Case, way: Way, x: Array, y: Array, still: Array) -> bool:
    """Whether a movement of about epsilon is rounding, by the float64 copy."""
    double = twin_of(case)
    if double is None:
        return True
    one, two = (checked(lambda z: way.run(double, z), z) for z in (x, y))
    return float((gap(one, two) / scale(one))[still].max()) <= SMALL
