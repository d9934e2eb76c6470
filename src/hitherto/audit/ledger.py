"""What an audit has run, found and left out so far."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hitherto.audit.report import Finding


class Failed(Exception):
    """A run of the audited model that gives nothing to compare."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause, self.detail = cause, detail


class Ledger:
    """Collects findings, coverage and cost; the same fault is kept once."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.covered: list[str] = []
        self.not_covered: list[tuple[str, str]] = []
        self.forwards = 0
        self.undecided = False
        self.spent: dict[str, float] = {}

    def found(self, finding: Finding) -> None:
        """Keep a finding, unless an earlier one tells of the same fault.

        An earlier one without a module learns it from a later one.
        """
        for i, earlier in enumerate(self.findings):
            if not _same(finding, earlier):
                continue
            if finding.module and not earlier.module:
                names = ("module", "cause", "detail", "next_step")
                learnt = {name: getattr(finding, name) for name in names}
                self.findings[i] = replace(earlier, **learnt)
            return
        self.findings.append(finding)

    def note(self, line: str) -> None:
        """Say that something was run."""
        if line not in self.covered:
            self.covered.append(line)

    def miss(self, what: str, why: str) -> None:
        """Say that something was not run, and why."""
        if (what, why) not in self.not_covered:
            self.not_covered.append((what, why))

    def cannot_decide(self, what: str, why: str) -> None:
        """As `miss`, about something without which the verdict cannot be clean."""
        self.undecided = True
        self.miss(what, why)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the wall time of a block to what was spent under this name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - started

    @contextmanager
    def probing(self, what: str) -> Iterator[None]:
        """Turn a probe that cannot be run into a line of what was not covered."""
        try:
            yield
        except Failed as failure:
            self.miss(what, failure.detail)
        except Exception as error:
            text = " ".join(str(error).split())[:160]
            self.cannot_decide(what, f"the probe failed: {type(error).__name__}: {text}")


def _same(one: Finding, other: Finding) -> bool:
    """A fault seen by one probe or mode is seen by many: the first to tell keeps the word."""
    if one.kind != other.kind:
        return False
    if one.probe == other.probe == "stages":
        return (one.module, one.cause) == (other.module, other.cause)
    if other.mode not in (one.mode, "eval"):
        return False
    unknown = one.module is None or other.module is None
    if one.kind in ("leak", "blind") and {one.probe, other.probe} <= {"suffix", "map", "layer"}:
        return unknown or one.module == other.module
    return one.cause == other.cause and (unknown or one.module == other.module)
