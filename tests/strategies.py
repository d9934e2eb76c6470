"""Random masks on random grids, from Hypothesis or from a seed.

One generator draws every choice through `pick(low, high)`, so that Hypothesis can shrink what a
seeded run can also produce by the thousand. A failing case prints as code one can paste.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from hitherto.mask import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Everything,
    Keys,
    Mask,
    Nothing,
    PerHead,
    Predicate,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Shift,
    Strided,
    Table,
    Timeline,
    Tree,
    Window,
)

Pick = Callable[[int, int], int]
"""Choose an int, both ends included; simpler values first."""

SMALL = (1, 2, 3, 5, 4, 6, 7, 8, 9, 11, 13, 16, 17)
EDGES = (1, 2, 3, 13, 31, 63, 64, 65, 97, 127, 128, 129)
_PLAIN_LIST = 24


def even_sum(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return (q + k) % 2 == 0


def near_or_third(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return (abs(q - k) < 2) | (k % 3 == 0)


def late_keys(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return k > 4


PREDICATES = {f.__name__: Predicate(f, f.__name__) for f in (even_sum, near_or_third, late_keys)}


@dataclass(frozen=True)
class Case:
    """A mask on a grid."""

    mask: Mask
    q_len: int
    k_len: int
    q_start: int

    def __repr__(self) -> str:
        return f"bind({self.mask}, {self.q_len}, {self.k_len}, q_start={self.q_start})"

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.q_len, self.k_len, self.q_start

    @property
    def q_pos(self) -> np.ndarray:
        return np.arange(self.q_start, self.q_start + self.q_len)

    @property
    def k_pos(self) -> np.ndarray:
        return np.arange(self.k_len)


@dataclass(frozen=True)
class Reach:
    """The positions a mask will be asked about, and the axes it may have."""

    q_first: int
    q_stop: int
    k_first: int
    k_stop: int
    batch: int = 1
    heads: int = 1

    @property
    def stop(self) -> int:
        return max(self.q_stop, self.k_stop, 1)

    @property
    def has_data(self) -> bool:
        return self.q_first >= 0 and self.k_first >= 0


def grid(pick: Pick, sizes: tuple[int, ...] = SMALL, tall: bool = True) -> tuple[int, int, int]:
    """Draw (q_len, k_len, q_start): wide, tall, square, decode offsets, primes, block edges."""
    q_len = sizes[pick(0, len(sizes) - 1)]
    k_len = sizes[pick(0, len(sizes) - 1)]
    if q_len > k_len:
        return (q_len, k_len, 0) if tall and pick(0, 1) else (k_len, q_len, q_len - k_len)
    return q_len, k_len, pick(0, k_len - q_len)


def mask(pick: Pick, reach: Reach, leaves: int) -> Mask:
    """Draw an expression of exactly `leaves` leaves over all masks and operators."""
    if leaves == 1:
        return _leaf(pick, reach)
    form = pick(0, 7)
    if form == 6:
        return ~mask(pick, reach, leaves)
    if form == 7:
        q, k = pick(-2, 2), pick(-2, 2)
        moved = replace(
            reach,
            q_first=reach.q_first - q,
            q_stop=reach.q_stop - q,
            k_first=reach.k_first - k,
            k_stop=reach.k_stop - k,
        )
        return Shift(mask(pick, moved, leaves), q=q, k=k)
    if form == 5 and reach.heads > 1 and leaves >= reach.heads:
        one = replace(reach, heads=1)
        return PerHead([mask(pick, one, leaves // reach.heads) for _ in range(reach.heads)])
    part = pick(1, leaves - 1)
    left, right = mask(pick, reach, part), mask(pick, reach, leaves - part)
    match form:
        case 0 | 5:
            return left & right
        case 1:
            return left | right
        case 2:
            return left - right
        case 3:
            return left ^ right
    return left & ~right


def _leaf(pick: Pick, reach: Reach) -> Mask:
    leaves = _FORMULAS + _DATA if reach.has_data else _FORMULAS
    leaf = leaves[pick(0, len(leaves) - 1)](pick, reach)
    return ~leaf if pick(0, 7) == 7 else leaf


def _numbers(pick: Pick, count: int, low: int, high: int) -> list[int]:
    if count <= _PLAIN_LIST:
        return [pick(low, high) for _ in range(count)]
    rng = random.Random(pick(0, 2**16))
    return [rng.randint(low, high) for _ in range(count)]


def _array(pick: Pick, reach: Reach, count: int, low: int, high: int) -> np.ndarray:
    """Draw ints of shape (count,), or (batch, count) where a batch is allowed."""
    if reach.batch > 1 and pick(0, 1):
        rows = reach.batch if pick(0, 3) else 1
        return np.array(_numbers(pick, rows * count, low, high)).reshape(rows, count)
    return np.array(_numbers(pick, count, low, high))


def _width(pick: Pick, reach: Reach) -> int:
    return pick(1, reach.stop + 2)


def _end(pick: Pick, reach: Reach) -> int | None:
    return pick(-1, reach.stop) if pick(0, 3) else None


def _band(pick: Pick, reach: Reach) -> Mask:
    before, after = _end(pick, reach), _end(pick, reach)
    crossed = before is not None and after is not None and before + after < 0
    return Band(-before, -after) if crossed else Band(before, after)


def _ranges(pick: Pick, reach: Reach) -> list[range] | range:
    starts = [pick(0, reach.stop) for _ in range(pick(1, 3))]
    found = [range(s, s + pick(0, 4), pick(1, 2)) for s in starts]
    return found if len(found) > 1 else found[0]


def _segments(pick: Pick, reach: Reach) -> Mask:
    match pick(0, 4):
        case 0:
            cuts = _numbers(pick, reach.stop, 0, 3)
            return Segments(np.cumsum([cut == 0 for cut in cuts]))
        case 1 if reach.batch > 1:
            lengths = [pick(0, reach.stop) for _ in range(reach.batch)]
            side = ("right", "left")[pick(0, 1)]
            return Segments.padded(lengths, side=side, width=reach.stop)
        case 2:
            ids = _array(pick, reach, reach.q_stop, -1, 3)
            return Segments(ids, _array(pick, reach, max(reach.k_stop, 1), -1, 3))
        case 3:
            return Segments(np.sort(_array(pick, reach, reach.stop, -1, 3)))
    return Segments(_array(pick, reach, reach.stop, -1, 3))


def _timeline(pick: Pick, reach: Reach) -> Mask:
    times = [_array(pick, reach, n, 0, 12) / 4 for n in (reach.q_stop, max(reach.k_stop, 1))]
    if pick(0, 1):
        times = [np.sort(t) for t in times]
    return Timeline(*times, lookahead=pick(-1, 3) / 4)


def _tree(pick: Pick, reach: Reach) -> Mask:
    start = pick(0, reach.stop - 1)
    count = reach.stop - start
    order = np.random.default_rng(pick(0, 99)).permutation(count)
    choices = _numbers(pick, count, 0, 3 * count)
    parents = np.full(count, -1)
    for i, choice in enumerate(choices[1:], start=1):
        if choice % 4:
            parents[order[i]] = order[choice % i]  # an earlier node in `order`: no cycle
    return Tree(parents, start)


def _table(pick: Pick, reach: Reach) -> Mask:
    rng = np.random.default_rng(pick(0, 2**16))
    shape: tuple[int, ...] = (reach.q_stop, max(reach.k_stop, 1))
    if reach.batch > 1 and pick(0, 1):
        shape = (reach.batch, *shape)
    if reach.heads > 1 and pick(0, 1):
        shape = ((reach.batch, reach.heads) if len(shape) == 3 else (1, reach.heads)) + shape[-2:]
    return Table(rng.random(shape) < pick(1, 9) / 10)


_FORMULAS = [
    lambda pick, reach: Nothing(),
    lambda pick, reach: Everything(),
    lambda pick, reach: Causal(),
    lambda pick, reach: Window(_width(pick, reach)),
    lambda pick, reach: Prefix(pick(0, reach.stop + 1)),
    _band,
    lambda pick, reach: Chunks(_width(pick, reach), pick(-3, 5)),
    lambda pick, reach: BlockCausal(_width(pick, reach)),
    lambda pick, reach: Queries(_ranges(pick, reach)),
    lambda pick, reach: Keys(_ranges(pick, reach)),
    lambda pick, reach: Dilated(pick(1, 5), pick(1, 5)),
    lambda pick, reach: Strided(pick(1, 6)),
    lambda pick, reach: RandomBlocks(pick(1, 6), pick(0, 4), pick(0, 99)),
    lambda pick, reach: list(PREDICATES.values())[pick(0, len(PREDICATES) - 1)],
]
_DATA = [
    _segments,
    lambda pick, reach: Queries(_array(pick, reach, max(reach.q_stop, 1), 0, 1) == 1),
    lambda pick, reach: Keys(_array(pick, reach, max(reach.k_stop, 1), 0, 1) == 1),
    _timeline,
    _tree,
    _table,
]


def case(
    pick: Pick,
    sizes: tuple[int, ...] = SMALL,
    leaves: int = 8,
    batch: int = 1,
    heads: int = 1,
    tall: bool = True,
) -> Case:
    """Draw a mask of up to `leaves` leaves on a grid."""
    q_len, k_len, q_start = grid(pick, sizes, tall)
    reach = Reach(q_start, q_start + q_len, 0, k_len, batch, heads)
    return Case(mask(pick, reach, pick(1, leaves)), q_len, k_len, q_start)


@st.composite
def cases(draw: st.DrawFn, **options: object) -> Case:
    """Masks on grids, for `@given`. Options as `case`."""
    return case(lambda low, high: draw(st.integers(low, high)), **options)


@st.composite
def cases_on_one_grid(draw: st.DrawFn, count: int = 2, leaves: int = 3) -> list[Case]:
    """Several masks on the same grid, for laws."""

    def pick(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    q_len, k_len, q_start = grid(pick)
    reach = Reach(q_start, q_start + q_len, 0, k_len)
    return [Case(mask(pick, reach, pick(1, leaves)), q_len, k_len, q_start) for _ in range(count)]


def seeded_case(seed: int, **options: object) -> Case:
    """Return the same case for the same seed, for ever: for runs by the thousand."""
    rng = random.Random(seed)
    return case(rng.randint, **options)
