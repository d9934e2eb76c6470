"""`hitherto sweep`: audit every language model that the installed transformers can build."""

import json as jsonlib
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from hitherto.cli.terminal import FINDING, OK, USAGE, console, say
from hitherto.errors import Unsupported, explain
from hitherto.integrations.columns import COLUMNS
from hitherto.integrations.sweep import Row
from hitherto.integrations.sweep import sweep as run_sweep
from hitherto.integrations.sweep_page import covered, page, table


def sweep(
    only: str | None, columns: str | None, jobs: int | None, timeout: float, json: bool,
    html: Path | None,
) -> int:  # fmt: skip
    """Run the sweep; 0 when nothing was found, 1 when something was, 2 when nothing ran."""
    screen = console(json)
    _require()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    chosen = _names(columns) or list(COLUMNS)
    started, rows = time.monotonic(), []
    jobs = jobs or min(os.cpu_count() or 1, 8)
    for row in run_sweep(_names(only), chosen, jobs=jobs, timeout_s=timeout):
        rows.append(row)
        _tell(screen, row)
    rows.sort(key=lambda row: (row.task, row.name))
    _close(screen, rows, chosen, time.monotonic() - started, jobs)
    if html:
        html.write_text(page(rows, chosen))
        say(screen, f"page: {html}")
    if json:
        sys.stdout.write(jsonlib.dumps(_plain(rows)) + "\n")
    if not any(row.cells for row in rows):
        return USAGE
    return FINDING if any(row.fault for row in rows) else OK


def _require() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise Unsupported(
            explain("sweep", "needs the transformers package", "not installed",
                    "install hitherto[transformers]")
        ) from None  # fmt: skip


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _tell(screen: Console, row: Row) -> None:
    if row.left_out:
        say(screen, f"{row.key}: left out: {row.left_out}", "yellow")
        return
    cells = "  ".join(f"{name} {cell.verdict}" for name, cell in row.cells.items())
    say(screen, f"{row.key}: {cells}", "red" if row.fault else "")
    for name, cell in row.cells.items():
        if cell.fault:
            say(screen, f"    {name}: {cell.note}")


def _close(screen: Console, rows: list[Row], columns: list[str], seconds: float, jobs: int) -> None:
    say(screen)
    say(screen, table(rows, columns))
    say(screen)
    for line in covered(rows):
        say(screen, line)
    say(screen, f"{len(rows)} architectures in {seconds:.0f} s with {jobs} processes at a time, of")
    say(screen, f"which {_parts(rows)}")


def _parts(rows: list[Row]) -> str:
    """Say what the processes spent their time on, all together."""
    spent: dict[str, float] = {}
    for row in rows:
        for part, seconds in row.spent.items():
            spent[part] = spent.get(part, 0.0) + seconds
    rest = sum(row.seconds for row in rows) - sum(spent.values())
    told = {part: f"{s:.0f} s" for part, s in {**spent, "other": rest}.items() if s >= 0.5}
    return "; ".join(f"{part} {seconds}" for part, seconds in told.items())


def _plain(rows: list[Row]) -> dict:
    import torch
    import transformers

    return {
        "transformers": transformers.__version__, "torch": torch.__version__,
        "rows": [{**asdict(row), "key": row.key} for row in rows],
    }  # fmt: skip
