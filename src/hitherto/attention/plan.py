"""Which keys each block of query rows meets, and which blocks are alike enough to run together.

A job is `n` tiles of equal shape and equal pattern of visible cells, stacked along the batch axis
of one kernel call. A window, or equal packed documents, take a few jobs for thousands of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hitherto.attention.grid import Grid, layout, outline_of
from hitherto.attention.rows import cells, places
from hitherto.mask import Mask, Spans, blocks

Array = np.ndarray

ROWS = 128
"""Query rows of a tile."""

KEY_BLOCK = 64
"""Keys are looked at in blocks of this many; those that no row of a tile sees are then dropped."""

MOST_KEYS = 2048
"""Keys of a tile with a mask, so that the mask stays small at any length."""

MOST_WHOLE = 8192
"""Keys of a tile without one, so that scores stay small."""

STACK = 8192
"""Rows and keys of a job, all its tiles together."""

Alike = Literal["whole", "pattern", "offsets", "never"]
"""Which tiles may share a job: equal cells; also equal offsets `k - q`; none. "whole" is "pattern",
but a grid that is full or causal all over, which fused kernels know by name, stays one tile."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """Tiles of one shape and one pattern."""

    count: int
    """Number of tiles."""

    rows: slice | Tensor
    """Their query rows, tile after tile, as slots."""

    keys: slice | Tensor
    """Their keys, tile after tile, as slots."""

    pattern: Literal["full", "causal"] | Array
    """Every cell is visible, or those with `key <= row`, or the cells packed eight to a byte."""

    shape: tuple[int, int]
    """Rows and keys of one tile."""

    alone: bool
    """No other job touches these rows."""

    @property
    def seen(self) -> Bool[Array, "queries keys"] | None:
        """The visible cells of one tile; None where all are. Dense: not for a whole causal grid."""
        if isinstance(self.pattern, str):
            return np.tri(*self.shape, dtype=bool) if self.pattern == "causal" else None
        bits = np.unpackbits(self.pattern, count=self.shape[0] * self.shape[1])
        return bits.view(bool).reshape(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The jobs of the heads that share one Spans."""

    heads: Int[Tensor, " pairs"] | None
    """`batch * heads + head` of every such pair; None for all of them."""

    kv_heads: Int[Tensor, " kv_pairs"] | None
    """`batch * kv_heads + kv_head` of the keys they use: one for each group of query heads, or,
    where only a part of a group is here, one for each query head."""

    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class _Tile:
    start: int
    stop: int
    keys: range | Int[Array, " keys"]
    pattern: bytes
    part: int
    parts: int

    def likeness(self, alike: Alike) -> object:
        """Tiles of equal likeness are stacked; `part` keeps those of the same rows apart."""
        if alike == "never" or isinstance(self.keys, range):
            return self.start, self.keys[0]
        shape = self.stop - self.start, self.keys.size, self.pattern, self.part, self.parts == 1
        return shape if alike != "offsets" else (*shape, (self.keys - self.start).tobytes())


Heads = tuple[int, int, int]
"""Batch, heads, and query heads that share a kv head."""


@lru_cache(maxsize=16)
def plans(mask: Mask, grid: Grid, heads: Heads, alike: Alike) -> tuple[Plan, ...]:
    """Plan every distinct Spans of a mask on a grid.

    Cost: O(visible tiles), once for each mask, grid and kind of bias.
    """
    bound = layout(mask, grid)
    index = np.broadcast_to(bound.index, heads[:2]).ravel()
    return tuple(
        Plan(**_members(np.flatnonzero(index == i), index.size, heads[2]),
             jobs=tuple(_jobs(spans, alike)))
        for i, spans in enumerate(bound.spans)
    )  # fmt: skip


def hides(mask: Mask, grid: Grid, heads: Heads, alike: Alike) -> bool:
    """Say whether any tile that a kernel reads holds a hidden cell."""
    return any(
        not isinstance(job.pattern, str) or job.pattern == "causal"
        for plan in plans(mask, grid, heads, alike)
        for job in plan.jobs
    )


def _members(pairs: Array, every: int, groups: int) -> dict[str, Tensor | None]:
    if pairs.size == every:
        return {"heads": None, "kv_heads": None}
    kv = pairs // groups
    whole = pairs.size % groups == 0 and (kv.reshape(-1, groups) == kv[::groups, None]).all()
    kv = kv[::groups] if whole else kv
    return {"heads": torch.from_numpy(pairs), "kv_heads": torch.from_numpy(kv)}


def _jobs(spans: Spans, alike: Alike) -> Iterator[Job]:
    named = outline_of(spans) if alike == "whole" else "other"
    if named != "other":
        yield Job(
            count=1, rows=slice(0, spans.q_len), keys=slice(0, spans.k_len), alone=True,
            pattern="full" if named == "everything" else "causal", shape=spans.shape,
        )  # fmt: skip
        return
    groups: dict[object, list[_Tile]] = {}
    for tile in _tiles(spans):
        groups.setdefault(tile.likeness(alike), []).append(tile)
    for group in groups.values():
        size = max(1, STACK // (group[0].stop - group[0].start + len(group[0].keys)))
        for first in range(0, len(group), size):
            yield _stacked(group[first : first + size])


def _stacked(group: list[_Tile]) -> Job:
    one = group[0]
    return Job(
        count=len(group),
        rows=_index(np.concatenate([np.arange(tile.start, tile.stop) for tile in group])),
        keys=_index(np.concatenate([tile.keys for tile in group])),
        pattern=np.frombuffer(one.pattern, np.uint8) if one.pattern else "full",
        shape=(one.stop - one.start, len(one.keys)),
        alone=one.parts == 1,
    )


def _index(slots: Int[Array, " slots"]) -> slice | Tensor:
    """Return a slice where the slots follow one another, so that nothing is copied."""
    if slots[-1] - slots[0] + 1 == slots.size and (np.diff(slots) == 1).all():
        return slice(int(slots[0]), int(slots[-1]) + 1)
    return torch.from_numpy(slots)


Pattern = tuple[Int[Array, " used"], bytes] | None
"""Which of a tile's keys any row sees, and the cells of those, packed (empty: all are visible)."""


def _tiles(spans: Spans) -> Iterator[_Tile]:
    touched = blocks(spans, ROWS, KEY_BLOCK)
    known: dict[object, Pattern] = {}
    for i, start in enumerate(range(0, spans.q_len, ROWS)):
        stop = min(start + ROWS, spans.q_len)
        run = slice(touched.offsets[i], touched.offsets[i + 1])
        whole, partial = _cut(
            np.minimum(touched.start[run] * KEY_BLOCK, spans.k_len).tolist(),
            np.minimum(touched.stop[run] * KEY_BLOCK, spans.k_len).tolist(),
            touched.full[run].tolist(),
        )
        parts: list[tuple[range | Array, bytes]] = [(keys, b"") for keys in whole]
        for keys in partial:
            ranges = places(spans, start, stop, keys)
            name = (stop - start, keys.size, *(x.tobytes() for x in ranges))
            if name not in known:
                known[name] = _pattern(cells(stop - start, keys.size, ranges))
            if (pattern := known[name]) is not None:
                parts.append((keys[pattern[0]], pattern[1]))
        for j, (keys, pattern) in enumerate(parts):
            yield _Tile(start, stop, keys, pattern, j, len(parts))


def _pattern(seen: Bool[Array, "queries keys"]) -> Pattern:
    used = np.flatnonzero(seen.any(0))
    if not used.size:
        return None
    seen = seen[:, used]
    return used, b"" if seen.all() else np.packbits(seen).tobytes()


def _cut(
    first: list[int], last: list[int], full: list[bool]
) -> tuple[list[range], list[Int[Array, " keys"]]]:
    """Cut the key ranges that a block of rows touches into tiles.

    Few keys stay together. Of many, those that every row sees go as ranges, which need no mask and
    no copy, and the rest in tiles that need both.
    """
    ranges = [range(a, b) for a, b in zip(first, last, strict=True)]
    if sum(len(keys) for keys in ranges) <= MOST_KEYS:
        full = [False] * len(full)
    whole = [
        keys[at : at + MOST_WHOLE]
        for keys, inner in zip(ranges, full, strict=True) if inner
        for at in range(0, len(keys), MOST_WHOLE)
    ]  # fmt: skip
    rest = [np.arange(keys.start, keys.stop)
            for keys, inner in zip(ranges, full, strict=True) if not inner]  # fmt: skip
    keys = np.concatenate([np.empty(0, np.int64), *rest])
    return whole, [keys[at : at + MOST_KEYS] for at in range(0, keys.size, MOST_KEYS)]
