"""Every language model that the installed transformers can build: tiny, random, offline, audited.

Each architecture is built and audited in a process of its own. A row says of each column whether
it is clean, what was found, or why it was not run.
"""

import functools
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitherto.errors import Unsupported, explain
from hitherto.integrations.children import Outcome, run_each
from hitherto.integrations.columns import COLUMNS, MODES, SPENT, Cell, cell
from hitherto.integrations.oddities import oddity
from hitherto.integrations.tiny import Task, architectures, tiny

LENGTHS = (5, 9, 20, 33)
"""Below, at and beyond windows and chunks of 8, and a prime beyond blocks of 32."""


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
    """Wall time of its process."""
    spent: dict[str, float] = field(default_factory=dict)
    """Parts of it: "build", and columns."""

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
    timeout_s: float = 300.0,
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
    spent = {"build": time.perf_counter() - started}
    mask = special.mask if not special.is_causal else declared(model)
    windows, made = isinstance(mask, tuple), subject(model, name)
    modes = tuple(dict.fromkeys(m for c in columns for m in MODES.get(c, ())))
    if not windows:
        modes = tuple(m for m in modes if m not in ("layer", "map"))
    report = audit(made, mask, lengths=LENGTHS, modes=modes)
    for probe, seconds in report.spent.items():
        if probe in SPENT:
            spent[SPENT[probe]] = spent.get(SPENT[probe], 0.0) + seconds
    cells = {c: cell(c, report, windows, made.source is not None) for c in columns}
    if _untold(cells):
        cells["decode"] = _decode(made)
    return _row_of(
        task, name, cells=cells, seconds=time.perf_counter() - started, spent=spent,
        weights=sum(p.numel() for p in model.parameters()),
    )  # fmt: skip


def _untold(cells: dict[str, Cell]) -> bool:
    """Whether decode looks clean only because a report tells each fault once, of another cut."""
    other = cells.get("chunked prefill")
    return "decode" in cells and cells["decode"].verdict == "ok" and bool(other and other.fault)


def _decode(made: Any) -> Cell:
    """Compare decode alone with the plain forward."""
    from hitherto.audit.case import Case
    from hitherto.audit.compare import agree
    from hitherto.audit.ledger import Failed
    from hitherto.audit.stages import staged

    case = Case(subject=made)
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
