"""One rank's way through a plan: what it computes and what it sends and receives, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hitherto.attention.grid import Grid
from hitherto.distributed.plan import Plan
from hitherto.distributed.shards import Slots, key_starts

Part = tuple[slice, slice, Grid]
"""Slots of own queries, slots of a step's keys, and the positions of both: one stretch of rows by
the keys that it may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Keys from one rank, and keys for one rank. Step 0 is a rank's own keys."""

    source: int
    """Where the keys come from."""

    target: int
    """Where own keys go to."""

    send: Slots
    """Own key slots that the target sees; none at step 0."""

    keys: int
    """Keys that come; at step 0, the own keys that own queries see."""

    slots: Slots
    """Own key slots to attend to at step 0; none after."""

    parts: tuple[Part, ...]
    """What is computed with them; stretches that see none of them are left out."""


@lru_cache(maxsize=256)
def route(plan: Plan, rank: int) -> tuple[Step, ...]:
    """Return the steps of a rank: own keys, then from rank - 1 and to rank + 1, and so on around.

    Steps where nothing travels either way are left out; who sends and who receives agree on them,
    because both read the same plan.
    """
    ranks, came = plan.ranks, {t.source: t.ranges for t in plan.transfers(rank)}
    none = np.empty((0, 2), np.int64)
    steps = []
    for distance in range(ranks):
        source, target = (rank - distance) % ranks, (rank + distance) % ranks
        ranges = came.get(source, none)
        gone = _sent(plan, rank, target) if distance else none
        if not ranges.size and not gone.size:
            continue
        step = Step(
            source=source,
            target=target,
            send=_slots(plan, rank, gone),
            keys=int((ranges[:, 1] - ranges[:, 0]).sum()),
            slots=() if distance else _slots(plan, rank, ranges),
            parts=tuple(_parts(plan, rank, ranges)),
        )
        steps.append(step)
    return tuple(steps)


def _sent(plan: Plan, rank: int, target: int) -> np.ndarray:
    found = (t.ranges for t in plan.transfers(target) if t.source == rank)
    return next(found, np.empty((0, 2), np.int64))


def _slots(plan: Plan, rank: int, ranges: np.ndarray) -> Slots:
    """Turn positions that a rank owns into slots of its local keys."""
    found, own = [], key_starts(plan.dealing, rank)
    for start, stop in ranges.tolist():
        first = next(slot + start - at for at, end, slot in own if at <= start < end)
        found.append((first, first + stop - start))
    return tuple(found)


def _parts(plan: Plan, rank: int, ranges: np.ndarray) -> Iterator[Part]:
    """Give each stretch of own rows that sees any of the keys in `ranges`."""
    dealing, (stretch, lo, hi) = plan.dealing, plan.of_stretches
    slots, slot = np.append(0, np.cumsum(ranges[:, 1] - ranges[:, 0])), 0
    for own in np.flatnonzero(dealing.owner == rank).tolist():
        start, stop = dealing.cuts[own : own + 2].tolist()
        needs = slice(*np.searchsorted(stretch, [own, own + 1]))
        first = np.searchsorted(ranges[:, 1], lo[needs], "right")
        last = np.searchsorted(ranges[:, 0], hi[needs], "left")
        if (first < last).any():
            met = slice(int(first[first < last].min()), int(last[first < last].max()))
            kept = tuple((int(i), int(j)) for i, j in ranges[met])
            keys = slice(int(slots[met.start]), int(slots[met.stop]))
            grid = Grid(q_start=start, q_len=stop - start, k_len=keys.stop - keys.start,
                        kept=None if kept == ((0, keys.stop - keys.start),) else kept)  # fmt: skip
            yield slice(slot, slot + stop - start), keys, grid
        slot += stop - start
