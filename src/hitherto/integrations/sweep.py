"""Every language model that the installed transformers can build: tiny, random, offline, audited.

Each architecture is built and audited in a process of its own. A row says of each column whether
it is clean, what was found, or why it was not run.
"""

import functools
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitherto.audit.report import Finding, Report
from hitherto.errors import Unsupported, explain
from hitherto.integrations.children import Outcome, run_each
from hitherto.integrations.oddities import oddity
from hitherto.integrations.tiny import Task, architectures, tiny

COLUMNS = {
    "leak": "an output depends on a later input",
    "decode": "token by token on a cache",
    "chunked prefill": "the prompt in pieces on a cache",
    "left padding": "pads in front, hidden by the attention mask",
    "packing": "documents in one row, positions restarting in each",
    "batch": "a row with other rows, and alone",
    "window": "what each layer sees, against the config",
}
"""Column -> what is looked at."""
LENGTHS = (5, 9, 20, 33)
"""Below, at and beyond windows and chunks of 8, and a prime beyond blocks of 32."""
_MODES = {
    "decode": ("stages",), "chunked prefill": ("stages",), "left padding": ("padding",),
    "packing": ("packing",), "batch": ("batch 1",), "window": ("layer", "map"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One column of one architecture."""

    verdict: str
    """"ok"; "LEAK", "blind", "differs", "mixes", "unstable", "fails"; "refuses" where the model
    raises an error instead of going wrong; "-" where it was not run."""
    note: str = ""
    """Module, cause and place of the first finding, or why it was not run."""

    @property
    def fault(self) -> bool:
        """Whether something was found."""
        return self.verdict not in ("ok", "refuses", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One architecture."""

    name: str
    """Model type."""
    task: Task
    """The list of transformers that it stands in."""
    class_name: str
    cells: dict[str, Cell] = field(default_factory=dict)
    """By column; empty when the architecture is left out."""
    left_out: str = ""
    """Why it is left out."""
    note: str = ""
    """What its tiny config needed beyond the rules, and its mask where that is not causal."""
    weights: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """The model type, marked where it is run as an encoder-decoder."""
        return self.name if self.task == "causal" else f"{self.name} (seq2seq)"

    @property
    def fault(self) -> bool:
        """Whether something was found in any column."""
        return any(cell.fault for cell in self.cells.values())


def sweep(
    only: Sequence[str] = (),
    columns: Sequence[str] = tuple(COLUMNS),
    *,
    tasks: Sequence[Task] = ("causal", "seq2seq"),
    jobs: int = 2,
    timeout_s: float = 120.0,
) -> Iterator[Row]:
    """Audit architectures; yield a row for each as it is done, in no fixed order.

    Args:
        only: model types; all unless given.
        columns: some of `COLUMNS`.
        tasks: lists of transformers to go through.
        jobs: processes at a time.
        timeout_s: for one architecture.

    Raises:
        Unsupported: a column or model type that does not exist.
    """
    _check(columns, COLUMNS, "columns")
    listed = [(task, name) for task in tasks for name in architectures(task)]
    _check(only, {name for _, name in listed}, "only")
    wanted = [(t, n, tuple(columns)) for t, n in listed if not only or n in only]
    _import_early()
    for outcome in run_each(_row, wanted, jobs=jobs, timeout_s=timeout_s):
        yield outcome.value or _left_out(outcome)


def _check(given: Sequence[str], known: Any, argument: str) -> None:
    wrong = [name for name in given if name not in known]
    if wrong:
        near = [n for n in known if any(n.replace("-", "_").startswith(w[:4]) for w in wrong)]
        raise Unsupported(
            explain(argument, "must hold names that there are", ", ".join(wrong),
                    f"perhaps {', '.join(sorted(near)[:6])}" if near else f"use {', '.join(known)}")
        )  # fmt: skip


def _import_early() -> None:
    """Import once what every child needs."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in ("modeling_utils", "generation", "masking_utils", "cache_utils"):
        importlib.import_module(f"transformers.{name}")
    importlib.import_module("hitherto.audit.audit")
    importlib.import_module("hitherto.integrations.transformers")


def _row(wanted: tuple[Task, str, tuple[str, ...]]) -> Row:
    """Build and audit one architecture; runs in a child."""
    import time
    import warnings

    from hitherto.audit import audit
    from hitherto.integrations.transformers import declared, subject

    warnings.simplefilter("ignore")
    task, name, columns = wanted
    started, special = time.perf_counter(), oddity(name)
    if special.left_out:
        return _row_of(task, name, left_out=special.left_out)
    model = tiny(name, task)
    mask = special.mask if not special.is_causal else declared(model)
    modes = tuple(dict.fromkeys(m for c in columns for m in _MODES.get(c, ())))
    windows = isinstance(mask, tuple)
    if not windows:
        modes = tuple(m for m in modes if m not in ("layer", "map"))
    made = subject(model, name)
    report = audit(made, mask, lengths=LENGTHS, modes=modes)
    cells = {column: cell(column, report, windows) for column in columns}
    if _untold(cells):
        cells["decode"] = _decode(made, mask)
    return _row_of(
        task, name, cells=cells, seconds=time.perf_counter() - started,
        weights=sum(p.numel() for p in model.parameters()),
    )  # fmt: skip


def _untold(cells: dict[str, Cell]) -> bool:
    """Whether decode looks clean only because a report tells each fault once, of another cut."""
    other = cells.get("chunked prefill")
    return "decode" in cells and cells["decode"].verdict == "ok" and bool(other and other.fault)


def _decode(made: Any, mask: Any) -> Cell:
    """Compare decode alone with the plain forward."""
    from hitherto.audit.agree import agree
    from hitherto.audit.case import Case
    from hitherto.audit.declared import Declared
    from hitherto.audit.ledger import Failed, Ledger
    from hitherto.audit.stages import staged

    case = Case(subject=made, declared=Declared.of(mask, made.depth), ledger=Ledger())
    x, cuts = case.base(LENGTHS[-2]), list(range(1, LENGTHS[-2]))
    try:
        found = agree(case, lambda s: s.run(x), lambda s: staged(s, x, "dynamic", cuts), both=True)
    except Failed as failure:
        return Cell(verdict="refuses", note=failure.detail)
    if not found:
        return Cell(verdict="ok")
    return Cell(verdict="differs", note=f"decode, length {LENGTHS[-2]}: output {found.position}")


def _row_of(task: Task, name: str, **more: Any) -> Row:
    special = oddity(name)
    note = special.note if special.is_causal else f"declared {special.mask}: {special.note}"
    return Row(name=name, task=task, class_name=_classes(task)[name], note=note, **more)


@functools.cache
def _classes(task: Task) -> dict[str, str]:
    return architectures(task)


def _left_out(outcome: Outcome) -> Row:
    task, name, _ = outcome.task
    return _row_of(task, name, left_out=outcome.error, seconds=outcome.seconds)


def cell(column: str, report: Report, windows: bool) -> Cell:
    """Read one column out of a report."""
    found = [f for f in report.findings if column_of(f) == column]
    if found:
        return Cell(verdict=_word(found[0]), note=_spell(found))
    if column == "window" and not windows:
        return Cell(verdict="-", note="its config has no window")
    probe = _MODES.get(column, ("run",))[0]
    missed = {what: why for what, why in report.not_covered}
    if probe in missed or (column != "leak" and _broken(report)):
        return Cell(verdict="-", note=_WHY.get(column, missed.get(probe, "the forward fails")))
    refused = [f"{what}: {why}" for what, why in missed.items() if _belongs(what, column)]
    return Cell(verdict="refuses", note=refused[0]) if refused else Cell(verdict="ok")


_WHY = {"packing": "its mask is not told of positions: documents in one row are not kept apart"}


def _belongs(what: str, column: str) -> bool:
    """Whether something that could not be run is a part of a column."""
    if column == "decode":
        return "decode" in what
    pieces = ("chunks of", "prefill", "several tokens")
    return column == "chunked prefill" and what.startswith(pieces) and "decode" not in what


def _broken(report: Report) -> bool:
    return any(f.probe == "run" for f in report.findings)


def column_of(finding: Finding) -> str:
    """Return the column that a finding belongs to; empty for one that has none."""
    past = finding.pair is not None and finding.pair[0] > finding.pair[1]
    if finding.probe in ("suffix", "map", "layer") and (past or finding.kind == "blind"):
        return "window"
    match finding.probe:
        case "stages" | "reuse" | "generate":
            return "decode" if "decode" in finding.mode else "chunked prefill"
        case "padding":
            return "left padding" if "left" in finding.mode else ""
        case "packing":
            return "packing"
        case "batch":
            return "batch"
        case "modes":
            return "batch" if finding.mode == "batch 1" else ""
    return "leak"


def _word(finding: Finding) -> str:
    if finding.kind == "leak":
        return "mixes" if finding.probe in ("packing", "batch") else "LEAK"
    return {"inconsistent": "differs", "broken": "fails"}.get(finding.kind, finding.kind)


def _spell(found: list[Finding]) -> str:
    first = found[0]
    place = f"{first.mode}, length {first.length}" + (f", pair {first.pair}" if first.pair else "")
    where = f"{first.module}: " if first.module else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}{first.cause}; {place}; {first.detail}{more}"
