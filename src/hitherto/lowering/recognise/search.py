"""The simplest expression that equals some cells: a beam of partial explanations.

An explanation so far is `A & (B | (C & ...` with the rest open. What the rest must show (`on`) and
must hide (`off`) shrinks with every part: after `A & ...` all that A hides is settled, after
`B | ...` all that B shows. A part may stand before `&` iff it contains `on`, before `|` iff it
avoids `off`; when nothing is left of either, the explanation is whole. Guesses are tried on a
probe of the grid; a whole explanation is proved on all of it, and where it fails, the cell that
shows so joins the probe.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import numpy as np

from hitherto.errors import MaskError
from hitherto.lowering.recognise.candidates import candidates
from hitherto.lowering.recognise.probe import Probe
from hitherto.lowering.recognise.region import Array, Region, entries
from hitherto.lowering.recognise.size import preference, size
from hitherto.mask import (
    And,
    Everything,
    Mask,
    Minus,
    Not,
    Nothing,
    Or,
    Spans,
    bind_batch,
    difference,
)

MOST_PARTS = 6
WIDTH, ALIKE = 10, 2
"""Partial explanations kept at each step, and of those that go on alike."""

SHORTEST_PART = 3
"""What one more part adds to the size of a mask, at least."""

MOST_PROOFS = 8

MOST_ENTRIES, CORNER = 1 << 22, 512
"""Spans of single rows of a target that is looked at whole; rows and keys of one that is not."""

ENOUGH = 1 << 14
"""Spans of single rows that a remainder may always have."""

CELL = 4
"""What a cell that differs adds to the size of a pattern that is only near."""

Pair = tuple[int, int]
Steps = tuple[tuple[type[And] | type[Or], Mask], ...]


@dataclass(frozen=True, slots=True)
class State:
    """A partial explanation, and what is left to explain."""

    steps: Steps
    on: tuple[Spans, ...]
    off: tuple[Spans, ...]
    seen_on: Array
    """The part of `on` that the probe sees; likewise `seen_off`."""
    seen_off: Array


@dataclass(frozen=True, slots=True)
class Step:
    """One more part of an explanation, as the probe sees it."""

    state: State
    joint: type[And] | type[Or]
    part: Mask
    on: Array
    off: Array

    @property
    def steps(self) -> Steps:
        """The explanation with this part."""
        return (*self.state.steps, (self.joint, self.part))

    def done(self, slack: int) -> bool:
        """Tell whether nothing is left to show, or nothing to hide, but for some cells."""
        return min(self.on.sum(), self.off.sum()) <= slack


def simplest(target: tuple[Spans, ...]) -> Mask | None:
    """Return a short mask that equals the target on its grid, proved, or None.

    Args:
        target: one Spans for each batch row, of one grid.
    """
    looked_at = target if is_regular(target) else _corner(target)
    wrong: list[Pair] = []
    for _ in range(MOST_PROOFS):
        failed = []
        for mask in explained(looked_at, Probe(looked_at, wrong)):
            cell = first_wrong(mask, target)
            if cell is None:
                return mask
            failed.append(cell)
        if not failed or looked_at is not target:
            return None
        wrong += failed[:1]
    return None


def is_regular(target: tuple[Spans, ...]) -> bool:
    """Tell whether the rows of a target, and of its complement, have few enough spans to list."""
    return 2 * sum(map(entries, target)) <= MOST_ENTRIES


def _corner(target: tuple[Spans, ...]) -> tuple[Spans, ...]:
    """Return the first rows and keys of a target too ragged to be looked at whole."""
    q_start, q_len, k_len = target[0].grid
    rows, keys = min(q_len, CORNER), min(k_len, q_start + CORNER)
    return tuple(s.rows(q_start, q_start + rows).compact([(0, keys)]) for s in target)


def first_wrong(mask: Mask, target: tuple[Spans, ...]) -> Pair | None:
    """Return the first cell at which a mask differs from the target, or that it does not reach."""
    try:
        seen = bound(mask, target)
    except MaskError:
        return target[0].q_start, 0
    cells = [difference(*pair) for pair in zip(seen, target, strict=True)]
    return min((cell for cell in cells if cell is not None), default=None)


def bound(mask: Mask, target: tuple[Spans, ...]) -> tuple[Spans, ...]:
    """Bind a mask to the target's grid: one Spans for each of its batch rows."""
    q_start, q_len, k_len = target[0].grid
    batch = bind_batch(mask, q_len, k_len, q_start)
    rows = np.broadcast_to(batch.index[:, 0], len(target))
    return tuple(batch.spans[i] for i in rows)


def explained(target: tuple[Spans, ...], probe: Probe, slack: int = 0) -> list[Mask]:
    """Return masks that the probe cannot tell from the target, the shortest first.

    Args:
        target: one Spans for each batch row.
        probe: where guesses are tried.
        slack: cells of the probe that each part of a mask may get wrong.
    """
    start = State((), target, tuple(~spans for spans in target), probe.target, ~probe.target)
    if not all(map(_some, (start.on, start.off))):
        return [Everything() if _some(start.on) else Nothing()]
    beam, most, whole = [start], 4 * _ragged(start) + ENOUGH, []
    for _ in range(MOST_PARTS):
        steps = [step for state in beam for step in _steps(state, probe, slack)]
        whole += [spelled(step.steps) for step in steps if step.done(slack)]
        whole = sorted(dict.fromkeys(whole), key=preference)[:WIDTH]
        limit = size(whole[0]) - SHORTEST_PART + min(slack, 2) * CELL if whole else None
        kept = _kept([step for step in steps if not step.done(slack)], limit)
        beam = [state for state in map(_taken, kept) if _ragged(state) <= most]
    return whole


def _steps(state: State, probe: Probe, slack: int) -> Iterator[Step]:
    """Try every candidate before `&` and before `|`."""
    on, off = state.seen_on, state.seen_off
    for part in candidates(Region(state.on, slack), Region(state.off, slack)):
        seen = probe.see(part)
        shown, hidden = on & seen, off & ~seen
        if (on & ~seen).sum() <= slack and hidden.sum() > slack:
            yield Step(state, And, part, shown, off & seen)
        if (off & seen).sum() <= slack and shown.sum() > slack:
            yield Step(state, Or, part, on & ~seen, hidden)


def _kept(steps: list[Step], limit: int | None) -> list[Step]:
    """Return the most promising steps, each remainder once, few of one kind."""
    shortest: dict[tuple[bytes, bytes], tuple[tuple, Step]] = {}
    for step in steps:
        length = size(spelled(step.steps))
        promise = length + 2 * float(np.log2(1 + _border(step.on, step.off)))
        order = promise, [joint is Or for joint, _ in step.steps]
        rest = step.on.tobytes(), step.off.tobytes()
        if (limit is None or length <= limit) and (
            rest not in shortest or order < shortest[rest][0]
        ):
            shortest[rest] = order, step
    kept: dict[tuple, list[Step]] = {}
    for _, step in sorted(shortest.values(), key=lambda pair: pair[0]):
        kind = kept.setdefault((id(step.state), step.joint, type(step.part)), [])
        if len(kind) < ALIKE and sum(map(len, kept.values())) < WIDTH:
            kind.append(step)
    return [step for kind in kept.values() for step in kind]


def _border(on: Array, off: Array) -> int:
    """Count neighbours one of which must be visible and the other hidden."""
    across = (on[:, :, 1:] & off[:, :, :-1]).sum() + (on[:, :, :-1] & off[:, :, 1:]).sum()
    down = (on[:, 1:] & off[:, :-1]).sum() + (on[:, :-1] & off[:, 1:]).sum()
    return int(across + down)


def _taken(step: Step) -> State:
    seen = bound(step.part, step.state.on)
    on, off = step.state.on, step.state.off
    if step.joint is And:
        on, off = (tuple(x & y for x, y in zip(side, seen, strict=True)) for side in (on, off))
    else:
        on, off = (tuple(x - y for x, y in zip(side, seen, strict=True)) for side in (on, off))
    return State(step.steps, on, off, step.on, step.off)


def _some(side: tuple[Spans, ...]) -> bool:
    return any(spans.a.size for spans in side)


def _ragged(state: State) -> int:
    """Count the spans of single rows that remain."""
    return sum(map(entries, state.on + state.off))


def spelled(steps: Steps) -> Mask:
    """Write an explanation as a mask: parts joined in the same way stand side by side."""
    mask = steps[-1][1]
    for joint, group in groupby(reversed(steps[:-1]), key=lambda step: step[0]):
        parts = [mask, *(part for _, part in group)]
        mask = _both(parts) if joint is And else reduce(Or, sorted(parts, key=_place))
    return mask


def _both(parts: list[Mask]) -> Mask:
    """Join by `&`, and by `-` what is complemented."""
    shown = sorted((part for part in parts if not isinstance(part, Not)), key=_place)
    hidden = [part.mask for part in parts if isinstance(part, Not)]
    if not shown:
        return Not(reduce(Or, sorted(hidden, key=_place)))
    return reduce(Minus, sorted(hidden, key=_place), reduce(And, shown))


def _place(mask: Mask) -> tuple[bool, int]:
    return isinstance(mask, (And, Or, Minus)), preference(mask)[1]
