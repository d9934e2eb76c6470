"""One way to run a subject, counted and checked; and comparing inputs slot by slot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hitherto.audit.declared import Declared
from hitherto.audit.ledger import Failed, Ledger
from hitherto.audit.subject import Array, Source, Subject
from hitherto.mask import Causal

ROWS = 16
"""Rows of a forward."""
DRAWS = 3
"""Different values tried at a changed position; the last is extreme."""
LOUD = 1e3
"""Floats of the extreme draw are larger by this."""


Positions = Array | Sequence[int]
"""Positions by number, or bool (length,)."""


@dataclass(eq=False)
class Case:
    """A subject in one mode, with what it declares."""

    subject: Subject
    declared: Declared = Declared((Causal(),), None)  # noqa: RUF009  (a frozen value)
    ledger: Ledger = field(default_factory=Ledger)
    mode: str = "eval"
    seed: int = 0
    rows: int = ROWS
    """Rows of a forward; 1 for a model that takes or keeps apart no batch."""
    noisy: bool = False
    """Whether equal inputs gave other bits."""
    floor: float = 0.0
    """Sizes up to this count as none; 0 = every bit counts."""
    varies: bool = False
    """Whether calls may differ, as with dropout: noise is then no finding."""
    cause: str | None = None
    """Cause of any leak of this mode, where the mode itself says it."""
    double: bool = False
    """Whether this is a float64 copy, made to tell rounding from faults."""
    strict: bool = False
    """Whether no movement is taken for rounding: the plain forward showed none."""
    maps: dict[int, Array] = field(default_factory=dict)
    """Measured maps by length: sizes (queries, keys)."""
    twins: dict[int, tuple[Subject, Subject | None]] = field(default_factory=dict)
    """Subjects, by id, and their float64 copies."""

    def run(self, x: Array) -> Array:
        """Run the subject on a batch; float (batch, length, outputs). Counts as one forward."""
        self.ledger.forwards += -(-len(x) // ROWS)
        return checked(self.subject.run, x)

    def base(self, length: int) -> Array:
        """Return the unchanged input, (1, length, ...)."""
        return self.subject.draw(np.random.default_rng(self.seed), 1, length)

    def other(self, base: Array, draw: int, where: Positions | None = None) -> Array:
        """Return other values at these positions, all unless given; draw counts from 0."""
        return changed(self.subject, base, self.seed, draw, where)


def changed(
    subject: Subject | Source, base: Array, seed: int, draw: int, where: Positions | None = None
) -> Array:
    """Return the draw-th other input of a seed; every third one is extreme.

    Extreme floats are a thousand times as large; extreme ids are all the same one.

    Args:
        subject: draws the values.
        base: the input (batch, length, ...).
        seed: of the values.
        draw: which of them, from 0.
        where: positions that change; all unless given.
    """
    other = subject.redraw(np.random.default_rng(seed + 1 + draw), base)
    if draw % DRAWS == DRAWS - 1:
        loud = subject.kind == "floats"
        other = (other * LOUD).astype(other.dtype) if loud else _same(base, other)
    if where is None:
        return other
    mixed, at = base.copy(), np.asarray(where)
    mixed[:, at] = other[:, at]
    return mixed


def _same(base: Array, other: Array) -> Array:
    """One id at every position, but where it would be no change."""
    return np.where(base == other[:, :1], other, other[:, :1])


def checked(function: Callable[..., Array], x: Array, *rest: Array) -> Array:
    """Call a model, and fail with a cause unless it gives one finite output a position.

    Raises:
        Failed: what the model raised, NaN, or outputs of another length or batch.
    """
    try:
        out = np.asarray(function(x, *rest))
    except Exception as error:
        text = " ".join(str(error).split())[:160]
        raise Failed("call fails", f"{type(error).__name__}: {text}") from error
    if out.dtype.kind not in "fiub" or out.ndim < 2 or out.shape[:2] != x.shape[:2]:
        raise Failed(
            "output does not follow the input",
            f"input {x.shape[:2]} gives output of shape {out.shape} and type {out.dtype}",
        )
    out = out.reshape(*out.shape[:2], -1)
    out = out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
    require_finite(out)
    return out


def require_finite(out: Array) -> None:
    """Raise Failed on NaN, +inf, or a position all of whose outputs are -inf.

    Some outputs of -inf are legal: they forbid a token.
    """
    lost = (np.isnan(out) | (out == np.inf)).any(-1) | ~np.isfinite(out).any(-1)
    if lost.any():
        where = int(np.argwhere(lost)[0, 1])
        raise Failed("not finite", f"NaN or infinite at output {where} of {out.shape[1]}")


def gap(one: Array, other: Array) -> Array:
    """Largest absolute difference at each position: 0 means the same bits (or both infinite)."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return np.where(one == other, 0.0, apart).max(axis=-1, initial=0.0)


def scale(out: Array) -> float:
    """Root mean square of the finite outputs: the unit of all sizes."""
    finite = out[np.isfinite(out)].astype(np.float64)
    return float(np.sqrt(np.mean(finite**2))) or 1.0 if finite.size else 1.0


def moved(one: Array, other: Array) -> Array:
    """Return how far each position moved, (batch, length), as a part of the outputs' scale."""
    one, other = (np.asarray(a).reshape(*np.shape(a)[:2], -1) for a in (one, other))
    return gap(one, other) / max(scale(one), scale(other))


class Versus:
    """One base input in every slot of a batch; changed inputs are compared in the same slot.

    The first and the last slot keep the base whenever there is room: if they move, rows mix or
    calls differ. Sizes are relative to the scale of the outputs.
    """

    def __init__(self, case: Case, length: int) -> None:
        self.case, self.base = case, case.base(length)
        self.before = self._run_base()
        self.scale = scale(self.before)
        self.noise = case.floor
        self.guard = 0.0
        """Largest size at a guard slot so far."""
        if case.noisy:
            self.calibrate()

    def _run_base(self) -> Array:
        return self.case.run(np.repeat(self.base, self.case.rows, axis=0))

    @property
    def room(self) -> int:
        """Changed rows that one forward takes."""
        return max(self.case.rows - 2, 1)

    def null(self) -> float:
        """Run the base once more; return how far it moved, which is noise."""
        return float(self._sizes(self._run_base()).max())

    def calibrate(self, repeats: int = 4) -> None:
        """Set the noise: movements below four times the largest seen count as none."""
        self.case.noisy, self.noise = True, 0.0
        self.noise = max(4 * max(self.null() for _ in range(repeats)), self.case.floor)

    def sizes(self, rows: Array) -> Array:
        """Return how far each changed row moves each output, (rows, length).

        Cost: one forward for every `room` rows.
        """
        found = [self._some(rows[i : i + self.room]) for i in range(0, len(rows), self.room)]
        return np.concatenate(found)

    def _some(self, rows: Array) -> Array:
        batch = np.repeat(self.base, self.case.rows, axis=0)
        first = 1 if self.case.rows > 2 else 0
        batch[first : first + len(rows)] = rows
        sizes = self._sizes(self.case.run(batch))
        if first:
            self.guard = max(self.guard, float(sizes[[0, -1]].max()))
        return sizes[first : first + len(rows)]

    def _sizes(self, out: Array) -> Array:
        if out.shape != self.before.shape:
            raise Failed("output does not follow the input",
                         f"outputs of shape {self.before.shape}, then {out.shape}")  # fmt: skip
        units = np.array([max(self.scale, scale(row)) for row in out])[:, None]
        sizes = np.minimum(gap(self.before, out) / units, 1e300)
        return np.where(sizes > self.noise, sizes, 0.0)
