"""What one check of `causality` or `agreement` found: one frozen value, the same for both."""

from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["clean", "leak", "inconsistent", "unstable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An output position and the input position that moved it."""

    query: int
    """Position of the output, from 0."""
    key: int
    """Position of the input, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check."""

    check: str
    """Name of the check: "causality" or "agreement"."""
    verdict: Verdict
    """clean; leak: an output depends on a later input; inconsistent: two modes disagree beyond the
    budget; unstable: the same call twice gave different numbers, so nothing can be concluded."""
    largest: float
    """Largest absolute difference found, in logits; 0.0 means bit-identical."""
    budget: float
    """Largest difference that still counts as clean, in logits."""
    reason: str
    """Why the budget is what it is."""
    worst: Pair | None = None
    """Where a leak is: a later input that moves an output; None unless the verdict is leak."""
    where: str = ""
    """Where the largest difference lies, in words; empty when there is none."""
    covered: tuple[str, ...] = ()
    """What was tried, one line each."""

    @property
    def clean(self) -> bool:
        """Whether the check passed."""
        return self.verdict == "clean"

    def as_dict(self) -> dict:
        """Return plain values, ready for JSON."""
        return asdict(self) | {"clean": self.clean}

    def __str__(self) -> str:
        head = f"{self.check}: {self.verdict}, largest difference {self.largest:.3g}"
        lines = [f"{head} (budget {self.budget:.3g}: {self.reason})"]
        lines += [f"  at {self.where}"] if self.where else []
        return "\n".join(lines + [f"  covered: {line}" for line in self.covered])
