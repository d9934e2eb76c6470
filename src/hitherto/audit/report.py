"""What an audit found: findings, what was covered, what was not, and the cost."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Literal

import numpy as np

from hitherto.audit.causes import CAUSES
from hitherto.errors import ModelError, explain

Kind = Literal["leak", "blind", "inconsistent", "unstable", "broken", "label"]
Verdict = Literal["clean", "findings", "undecided"]
KINDS = ("leak", "blind", "inconsistent", "unstable", "broken", "label")
EXIT = {"clean": 0, "findings": 1, "undecided": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: what, where, how large, why, and how to see it again."""

    kind: Kind
    """leak: hidden, but moves the output. blind: visible, but never moves it. inconsistent: two
    modes or stages disagree. unstable: the same call differs. broken: fails, or gives NaN. label:
    loss and labels do not fit."""
    probe: str
    """Name of the probe that saw it."""
    mode: str = "eval"
    """How the model was run: "eval", "train", "decode", "padded left", ..."""
    length: int
    """Positions of the input."""
    pair: tuple[int, int] | None = None
    """(output position, input position), or None where no pair says it."""
    size: float = 0.0
    """Largest movement, as a part of the outputs' own scale (their root mean square)."""
    module: str | None = None
    """First module at fault, "path (Class)"; None where no module could be named."""
    cause: str = "unexplained"
    """Likely cause: one of `CAUSES`."""
    detail: str = ""
    """What was measured, in one line."""
    next_step: str = ""
    """What to look at; that of the cause unless given."""
    seed: int = 0
    """Seed of the inputs."""
    reproducer: str = ""
    """At most ten lines of Python that show it again; `model` is the caller's."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.cause not in CAUSES:
            raise ModelError(
                explain("Finding.kind, cause", "must be from the lists in audit.report and causes",
                        f"{self.kind!r}, {self.cause!r}", "use or extend the closed lists")
            )  # fmt: skip
        if not self.next_step:
            object.__setattr__(self, "next_step", CAUSES[self.cause])

    def __str__(self) -> str:
        from hitherto.audit.terminal import spell

        return spell(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """The result of an audit."""

    subject: str
    """Name of the model."""
    declared: str
    """Text of the declared mask, or masks."""
    verdict: Verdict
    """undecided: nothing was found, but something kept the audit from saying clean."""
    findings: tuple[Finding, ...] = ()
    """Worst first: those of the plain forward before those of other modes."""
    covered: tuple[str, ...] = ()
    """What was run, one line each."""
    not_covered: tuple[tuple[str, str], ...] = ()
    """(what was not run, why)."""
    forwards: int = 0
    """Forward passes of at most 16 rows; a cached step counts as one too."""
    seconds: float = 0.0
    """Wall time."""
    spent: dict[str, float] = field(default_factory=dict, repr=False)
    """Wall time of the plain forward and of each probe, by name, where it was over 1 ms."""
    seed: int = 0
    """Seed of all inputs."""
    declared_map: np.ndarray | None = field(default=None, repr=False)
    """bool (queries, keys): what may matter, through all layers, at the largest length mapped."""
    measured_map: np.ndarray | None = field(default=None, repr=False)
    """bool (queries, keys): what was seen to matter."""

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings, 2 undecided."""
        return EXIT[self.verdict]

    @property
    def clean(self) -> bool:
        """Whether the verdict is clean."""
        return self.verdict == "clean"

    def __str__(self) -> str:
        from hitherto.audit.terminal import text

        return text(self)

    def to_json(self) -> str:
        """Return JSON that `SCHEMA` describes; maps are runs [start, stop) of each row."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["findings"] = [asdict(finding) for finding in self.findings]
        for name in ("declared_map", "measured_map"):
            plain[name] = None if plain[name] is None else encode_map(plain[name])
        return json.dumps({"schema": SCHEMA_ID, **plain}, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Report":
        """Read what `to_json` wrote.

        Raises:
            ModelError: when the text is not such a report.
        """
        try:
            plain = json.loads(text)
            if plain.pop("schema") != SCHEMA_ID:
                raise ValueError("another schema")
            plain["findings"] = tuple(
                Finding(**{**f, "pair": f["pair"] and tuple(f["pair"])}) for f in plain["findings"]
            )
            plain["covered"] = tuple(plain["covered"])
            plain["not_covered"] = tuple((a, b) for a, b in plain["not_covered"])
            for name in ("declared_map", "measured_map"):
                plain[name] = None if plain[name] is None else decode_map(plain[name])
            return Report(**plain)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ModelError(
                explain("from_json(text)", f"must be a report of schema {SCHEMA_ID}",
                        f"{type(error).__name__}: {error}", "write it with Report.to_json")
            ) from error  # fmt: skip

    def to_html(self) -> str:
        """Return one self-contained page."""
        from hitherto.audit.html import page

        return page(self)


def runs_of_row(row: np.ndarray) -> list[list[int]]:
    """Return the runs [start, stop) of a bool row."""
    edges = np.flatnonzero(np.diff(row.astype(np.int8), prepend=0, append=0))
    return edges.reshape(-1, 2).tolist()


def encode_map(grid: np.ndarray) -> dict:
    """Return a bool grid as its number of keys and the runs of each row."""
    return {"keys": int(grid.shape[1]), "rows": [runs_of_row(row) for row in grid]}


def decode_map(plain: dict) -> np.ndarray:
    """Undo `encode_map`."""
    grid = np.zeros((len(plain["rows"]), int(plain["keys"])), bool)
    for row, runs in zip(grid, plain["rows"], strict=True):
        for start, stop in runs:
            row[start:stop] = True
    return grid


SCHEMA_ID = "hitherto-audit-1"
_TEXT, _NUMBER, _WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
_RUN = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_MAP = {
    "type": ["object", "null"],
    "properties": {
        "keys": _WHOLE,
        "rows": {"type": "array", "items": {"type": "array", "items": _RUN}},
    },
    "required": ["keys", "rows"],
}
_FINDING = {
    "type": "object",
    "properties": {
        **{f.name: _TEXT for f in fields(Finding)},
        "kind": {"enum": list(KINDS)},
        "cause": {"enum": list(CAUSES)},
        "length": _WHOLE,
        "seed": _WHOLE,
        "size": _NUMBER,
        "pair": {"anyOf": [_RUN, {"type": "null"}]},
        "module": {"type": ["string", "null"]},
    },
    "required": [f.name for f in fields(Finding)],
    "additionalProperties": False,
}
SCHEMA = {
    "$id": SCHEMA_ID,
    "type": "object",
    "properties": {
        "schema": {"const": SCHEMA_ID},
        "subject": _TEXT,
        "declared": _TEXT,
        "verdict": {"enum": list(EXIT)},
        "findings": {"type": "array", "items": _FINDING},
        "covered": {"type": "array", "items": _TEXT},
        "not_covered": {
            "type": "array",
            "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2},
        },
        "forwards": _WHOLE,
        "seconds": _NUMBER,
        "spent": {"type": "object", "additionalProperties": _NUMBER},
        "seed": _WHOLE,
        "declared_map": _MAP,
        "measured_map": _MAP,
    },
    "required": ["schema", *(f.name for f in fields(Report))],
    "additionalProperties": False,
}
"""JSON schema of a report."""
