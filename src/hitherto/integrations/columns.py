"""The columns of the sweep, and how each is read out of a report."""

from dataclasses import dataclass

from hitherto.audit.report import Finding, Report

COLUMNS = {
    "leak": "an output depends on a later input",
    "decode": "token by token on a cache",
    "chunked prefill": "the prompt in pieces on a cache",
    "left padding": "pads in front, hidden by the attention mask",
    "packing": "documents in one row, positions restarting in each",
    "batch": "a row with other rows, and alone",
    "window": "what each layer sees, against the config",
    "source": "what encoder states and outputs see of the source, and of its pads",
}
"""Column -> what is looked at."""
MODES = {
    "decode": ("stages",), "chunked prefill": ("stages",), "left padding": ("padding",),
    "packing": ("packing",), "batch": ("batch 1",), "window": ("layer", "map"),
    "source": ("cross",),
}  # fmt: skip
"""Column -> what an audit runs for it beside the plain forward."""
SPENT = {
    "plain": "leak", "stages": "decode, chunked prefill", "padding": "left padding",
    "packing": "packing", "modes": "batch", "layer": "window", "map": "window", "cross": "source",
}  # fmt: skip
"""Probe -> the columns that its time belongs to."""


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


def cell(column: str, report: Report, windows: bool, source: bool = False) -> Cell:
    """Read one column out of a report."""
    found = [f for f in report.findings if column_of(f) == column]
    if found:
        return Cell(verdict=_word(found[0]), note=_spell(found))
    if column == "window" and not windows:
        return Cell(verdict="-", note="its config has no window")
    if column == "source" and not source:
        return Cell(verdict="-", note="it has no encoder")
    probe = MODES.get(column, ("run",))[0]
    missed = {what: why for what, why in report.not_covered}
    if probe in missed or (column != "leak" and _broken(report)):
        return Cell(verdict="-", note=_WHY.get(column, missed.get(probe, "the forward fails")))
    refused = [f"{what}: {why}" for what, why in missed.items() if _belongs(what, column)]
    return Cell(verdict="refuses", note=refused[0]) if refused else Cell(verdict="ok")


_WHY = {"packing": "its mask is not told of positions: documents in one row are not kept apart"}


def _belongs(what: str, column: str) -> bool:
    """Whether something that could not be run is a part of a column."""
    steps = "decode" in what and not what.startswith("padded")
    match column:
        case "source":
            return what in ("encoder", "cross", "encoder states to outputs", "source padding")
        case "decode":
            return steps
        case "chunked prefill":
            return what.startswith(("chunks of", "prefill", "several tokens")) and not steps
        case "left padding":
            return what.startswith("padded left")
        case "packing":
            return what.startswith("packing")
    return False


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
        case "cross" | "encoder":
            return "source"
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
