"""`hitherto audit`: what does a model really see, compared with the mask it declares?"""

import sys
from pathlib import Path
from typing import Any

from hitherto.audit import Report
from hitherto.audit import audit as run_audit
from hitherto.cli.target import Target, find
from hitherto.cli.terminal import console, say
from hitherto.errors import ModelError, explain
from hitherto.mask import parse

SMALL = 2_000_000
"""Weights below which one thread is fastest."""


def audit(
    target: str,
    declared: str | None,
    modes: str | None,
    lengths: str | None,
    vocab: int | None,
    width: int | None,
    seed: int,
    json: bool,
    html: Path | None,
) -> int:
    """Audit a target; return the report's exit code: 0 clean, 1 findings, 2 undecided."""
    screen = console(json)
    mask = None if declared is None else parse(declared)
    found = find(target)
    say(screen, f"{target}: {found.what}")
    _one_thread_if_small(found.model)
    with screen.status("auditing"):
        report = run_audit(
            found.model, found.declared if mask is None else mask, vocab=vocab, width=width,
            modes=_modes(modes), lengths=_lengths(lengths), seed=seed,
        )  # fmt: skip
    _write(report, found, html, screen)
    say(screen, str(report))
    if json:
        sys.stdout.write(report.to_json() + "\n")
    return report.exit_code


def _one_thread_if_small(model: Any) -> None:
    """Threads cost a small model more than they bring."""
    module = getattr(model, "module", None) or model
    if hasattr(module, "parameters") and sum(p.numel() for p in module.parameters()) < SMALL:
        import torch

        torch.set_num_threads(1)


def _modes(text: str | None) -> Any:
    if text in (None, "auto", "all"):
        return text or "auto"
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _lengths(text: str | None) -> Any:
    if text is None:
        return "auto"
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise ModelError(
            explain("--lengths", "must be positive whole numbers with commas", text,
                    "write e.g. 8,33,130")
        )  # fmt: skip
    return found


def _write(report: Report, found: Target, html: Path | None, screen: Any) -> None:
    if html is None:
        return
    html.write_text(report.to_html())
    say(screen, f"page: {html}")
