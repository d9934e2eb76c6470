"""Perturbation: change inputs that an output may not see, and look at its bits.

Two forms. `hidden` changes, for some query, everything on one side that it may not see: a leak of
any reach shows, at a few forwards. `influence` changes one input at a time: the whole map.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hitherto.audit.case import DRAWS, Case, Versus
from hitherto.audit.subject import Array


@dataclass(frozen=True)
class Change:
    """Inputs that are changed together, and the outputs that must not move."""

    keys: Array
    """bool (length,): the changed inputs."""
    still: Array
    """bool (length,): the outputs that may see none of them."""
    draw: int
    """Which other values they get."""


@dataclass(frozen=True)
class Leak:
    """A change that moved what it must not."""

    change: Change
    sizes: Array
    """(length,): how far each output moved."""

    @property
    def query(self) -> int:
        """The output that moved most, of those that must not."""
        return int(np.argmax(np.where(self.change.still, self.sizes, -1)))

    @property
    def size(self) -> float:
        """How far it moved."""
        return float(self.sizes[self.query])


def hidden_changes(reach: Array, count: int, edges: tuple[int, ...] = ()) -> list[Change]:
    """Choose at most `count` changes: for some queries, all later or all earlier hidden inputs.

    Args:
        reach: bool (queries, keys): what may matter.
        count: changes at most.
        edges: positions worth a change of their own, first to be taken.
    """
    length = len(reach)
    order = np.arange(length)
    sides = [
        (np.tri(length, k=-1, dtype=bool) & ~reach).any(1),
        (~np.tri(length, dtype=bool) & ~reach).any(1),
    ]
    changes: dict[bytes, Change] = {}
    active = sum(bool(side.any()) for side in sides)
    for past, rows in enumerate(map(np.flatnonzero, sides[::-1])):
        for query in _spread(rows, count // max(active, 1), edges):
            beyond = order < query if past else order > query
            keys = ~reach[query] & beyond
            still = ~np.any(reach[:, keys], axis=1)
            changes.setdefault(keys.tobytes(), Change(keys, still, len(changes)))
    return list(changes.values())[:count]


def _spread(rows: Array, count: int, edges: tuple[int, ...]) -> list[int]:
    """Choose rows: the ends, those at the edges, and an even spread of the others."""
    if len(rows) <= count:
        return rows.tolist()
    near = [p for edge in edges for p in (edge - 1, edge - 2, edge) if p in rows]
    chosen = dict.fromkeys([int(rows[0]), int(rows[-1]), *near][: count // 2])
    for at in np.linspace(0, len(rows) - 1, count).astype(int):
        chosen.setdefault(int(rows[at]))
    return list(chosen)[:count]


def apply(case: Case, base: Array, change: Change) -> Array:
    """Return the base with the inputs of a change replaced, (1, length, ...)."""
    return case.other(base, change.draw, change.keys)


def hidden(case: Case, versus: Versus, changes: list[Change]) -> Leak | None:
    """Apply the changes; return the one that moved most of what must stay, if any did.

    Cost: one forward for every 14 changes.
    """
    if not changes:
        return None
    rows = np.concatenate([apply(case, versus.base, change) for change in changes])
    leaks = [
        Leak(change, sizes)
        for change, sizes in zip(changes, versus.sizes(rows), strict=True)
        if sizes[change.still].any()
    ]
    return max(leaks, key=lambda leak: leak.size, default=None)


def influence(case: Case, length: int, draws: int = DRAWS) -> Array:
    """Measure the map: sizes (queries, keys), how far input k alone moves output q; 0 = not a bit.

    Cost: draws * length / 14 forwards, and one for the base.
    """
    if length not in case.maps:
        case.maps[length] = alone(case, Versus(case, length), np.arange(length), range(draws))
    return case.maps[length]


def alone(case: Case, versus: Versus, keys: Array, draws: Sequence[int]) -> Array:
    """Measure some columns of the map: sizes (queries, len(keys))."""
    found = np.zeros((versus.base.shape[1], len(keys)))
    for draw in draws:
        other = case.other(versus.base, draw)
        rows = np.repeat(versus.base, len(keys), axis=0)
        rows[np.arange(len(keys)), keys] = other[0, keys]
        found = np.maximum(found, versus.sizes(rows).T)
    return found
