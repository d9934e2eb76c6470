"""Plan context parallelism: who computes which rows, and which keys travel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from hitherto.distributed import deals, loads
from hitherto.distributed.dealing import Dealing, contiguous, joined, zigzag
from hitherto.distributed.loads import Ranges
from hitherto.distributed.topology import Layer, Topology
from hitherto.errors import MaskError, explain
from hitherto.mask import Mask, Spans, bind_batch
from hitherto.mask.bind import require_grid
from hitherto.mask.expression import require_int

Array = np.ndarray

BALANCED = 1.02
"""Plans with at most this, max / mean cells, count as equal: then the faster one is taken."""

AS_FAST = 1.05
"""Plans that take at most this times the fastest's time count as equal: then least travels."""

ROWS = 1.5
"""Plans with at most this, max / mean rows, are preferred: a rank's memory grows with its rows."""

GRAINS = 100
"""Rows are cut finer than a block where one would be more than 1 / GRAINS of a rank's share."""

BLOCK = 128
"""Rows of a block where that leaves every rank at least FEWEST blocks."""

FEWEST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Keys that one rank sends to another: one message."""

    source: int
    """The rank that owns the keys."""

    ranges: Array
    """Their positions: ordered ranges `[start, stop)`, int64 (n, 2)."""

    @property
    def keys(self) -> int:
        """How many."""
        return int((self.ranges[:, 1] - self.ranges[:, 0]).sum())


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A dealing under a mask: cells, keys and messages of every rank."""

    dealing: Dealing
    """Who owns which rows and keys."""

    cells: Array
    """Visible cells of each rank, over the mask's batch rows and heads: int64 (ranks,)."""

    needs: Ranges
    """Keys that each rank's rows see: (rank, lo, hi), merged."""

    of_stretches: Ranges
    """The same for each stretch of the dealing: (stretch, lo, hi)."""

    name: str
    """How the rows were dealt."""

    reason: str
    """Why so."""

    heaviest_row: int
    """Cells of the heaviest row: no rank can have fewer."""

    topology: Topology
    layer: Layer

    @property
    def ranks(self) -> int:
        """How many ranks."""
        return self.dealing.ranks

    @property
    def ideal(self) -> float:
        """The least that the busiest rank can have: an equal share, or the heaviest row."""
        return max(float(self.cells.mean()), float(self.heaviest_row))

    @property
    def balance(self) -> float:
        """Most cells of a rank, divided by the mean; 1 is ideal."""
        return float(self.cells.max() / self.cells.mean()) if self.cells.any() else 1.0

    @property
    def token_balance(self) -> float:
        """Most rows of a rank, divided by the mean."""
        return float(self.dealing.tokens.max() / max(self.dealing.tokens.mean(), 1e-300))

    @cached_property
    def received(self) -> Array:
        """Keys that each rank receives, forward: those it sees and does not own."""
        own = loads.overlap(self.needs, self.dealing.keys, self.ranks, self.dealing.k_len)
        return loads.lengths(self.needs, self.ranks) - own

    @cached_property
    def sent(self) -> Array:
        """Keys that each rank sends, forward, once for every rank that sees them."""
        cuts, owner = self.dealing.key_stretches
        total = np.zeros(self.ranks, np.int64)
        np.add.at(total, owner, loads.readers(self.needs, cuts))
        needed = loads.lengths(self.needs, self.ranks)
        return total - (needed - self.received)

    @cached_property
    def from_afar(self) -> Array:
        """Keys that each rank receives from other nodes."""
        rank, lo, hi = self.dealing.keys
        node, size = self.topology.node(rank), self.topology.ranks_per_node
        group, k_len = node[:, None] * size + np.arange(size), self.dealing.k_len
        every = [np.repeat(x, size) for x in (lo, hi)]
        real = group.ravel() < self.ranks
        held = loads.merged((group.ravel()[real], *(x[real] for x in every)), k_len)
        near = loads.overlap(self.needs, held, self.ranks, k_len)
        return loads.lengths(self.needs, self.ranks) - near

    @property
    def seconds(self) -> float:
        """Time of one layer forward, by `topology`: the slowest rank's, transfers under compute."""
        dealing, top = self.dealing, self.topology
        attend, linear = top.compute(self.layer, self.cells, dealing.tokens)
        travel = top.travel(self.layer, self.received, self.from_afar)
        starts = top.latency * np.bincount(dealing.owner, minlength=self.ranks)
        return float((np.maximum(attend, travel) + linear + starts).max(initial=0.0))

    @property
    def bytes(self) -> int:
        """Bytes that travel in one layer, forward, in all; backward takes twice as many."""
        return int(self.received.sum()) * self.layer.key_bytes

    @property
    def ring_bytes(self) -> int:
        """Bytes that ring attention sends: every key to every other rank."""
        return (self.ranks - 1) * self.dealing.k_len * self.layer.key_bytes

    def keys(self, rank: int) -> Array:
        """Return the key ranges that a rank's rows see: ordered, int64 (n, 2)."""
        group, lo, hi = self.needs
        at = slice(*np.searchsorted(group, [rank, rank + 1]))
        return np.stack([lo[at], hi[at]], 1)

    def transfers(self, rank: int) -> tuple[Transfer, ...]:
        """Return what a rank attends to, in order: its own keys, then those of others.

        The others by distance: from rank - 1, rank - 2, ... around. So at every step each rank
        sends to one and receives from one, and a transfer runs while the one before is attended to.
        """
        cuts, owner = self.dealing.key_stretches
        found: dict[int, list[tuple[int, int]]] = {}
        for lo, hi in self.keys(rank).tolist():
            first = int(np.searchsorted(cuts, lo, "right")) - 1
            stop = int(np.searchsorted(cuts, hi, "left"))
            for i in range(first, stop):
                piece = max(lo, int(cuts[i])), min(hi, int(cuts[i + 1]))
                found.setdefault(int(owner[i]), []).append(piece)
        near = sorted(found, key=lambda source: (rank - source) % self.ranks)
        return tuple(Transfer(source=s, ranges=np.array(found[s], np.int64)) for s in near)

    def __repr__(self) -> str:
        return (
            f"Plan({self.name}: {self.ranks} ranks, cells max/mean {self.balance:.3f}, "
            f"{self.bytes:,} bytes a layer; {self.reason})"
        )


Masks = Mask | Sequence[Mask]


def plan(
    mask: Masks,
    q_len: int,
    k_len: int,
    ranks: int,
    *,
    q_start: int | None = None,
    block: int | None = None,
    dealing: str | Dealing = "best",
    topology: Topology | None = None,
    layer: Layer | None = None,
) -> Plan:
    """Deal the queries so that every rank has equal cells, and say which keys must travel.

    Cells are counted exactly, from Spans. Several ways to deal are tried (`deals`, and the two that
    others use). Of those within 2 % of equal cells, and about as fast as the fastest by
    `topology`, the one that sends least is taken.

    Args:
        mask: who may attend to whom; or the masks of layers that share the dealing, whose cells
            are added and of whose keys all are sent.
        q_len: queries; the last of the keys' positions unless `q_start` says otherwise.
        k_len: keys.
        ranks: how many, >= 1.
        q_start: position of the first query.
        block: rows are dealt in blocks of so many, the last one ragged; a block heavier than
            1/100 of a rank's share is cut finer. None takes 128, or less for few rows.
        dealing: "best"; a way by name: "cut", "folded", "spread", "dealt", "contiguous", "zigzag";
            or a Dealing that stands already.
        topology: speeds of ranks and links.
        layer: sizes of the layer that travels and computes.
    Raises:
        MaskError: lengths or ranks that are none, or a way that is not known.
    Cost: O(runs + grains * log), grains being about 100 a rank.
    """
    require_int("ranks", ranks, 1, "pass a count of processes")
    masks = (mask,) if isinstance(mask, Mask) else tuple(mask)
    if not masks:
        raise MaskError(explain("mask", "must be a mask or some", "none", "pass Causal()"))
    starts = {require_grid(one, q_len, k_len, q_start) for one in masks}
    block = _block(q_len, ranks) if block is None else block
    require_int("block", block, 1, "128 is usual")
    grid = q_len, k_len, starts.pop()
    setting = topology or Topology(), layer or Layer()
    return _planned(masks, grid, ranks, block, dealing, *setting)


def _block(q_len: int, ranks: int) -> int:
    return min(BLOCK, 1 << max((q_len // (FEWEST * ranks)).bit_length() - 1, 0))


@lru_cache(maxsize=64)
def _planned(
    masks: tuple[Mask, ...],
    grid: tuple[int, int, int],
    ranks: int,
    block: int,
    dealing: str | Dealing,
    topology: Topology,
    layer: Layer,
) -> Plan:
    bound = [x for mask in masks for x in _counted(mask, *grid)]
    if isinstance(dealing, Dealing):
        return _seen(bound, dealing, "given", "as it stands", topology, layer)
    edges = _edges(bound, ranks, block)
    ways = _ways(bound, edges, ranks, grid, dealing)
    plans = [_seen(bound, d, name, "asked for by name", topology, layer) for name, d in ways]
    return plans[0] if dealing != "best" else _best(plans)


def _counted(mask: Mask, q_len: int, k_len: int, q_start: int) -> list[tuple[Spans, int]]:
    """Bind a mask: each distinct Spans and how many batch rows and heads have it."""
    batch = bind_batch(mask, q_len, k_len, q_start)
    times = np.bincount(batch.index.ravel(), minlength=len(batch.spans))
    return list(zip(batch.spans, times.tolist(), strict=True))


def _cells(bound: list[tuple[Spans, int]], edges: Array) -> Array:
    return sum(times * loads.cells_of(spans, edges) for spans, times in bound)  # type: ignore[return-value]


def _edges(bound: list[tuple[Spans, int]], ranks: int, block: int) -> Array:
    """Cut the rows into blocks, and heavy blocks into grains of equal rows."""
    spans = bound[0][0]
    edges = np.append(np.arange(spans.q_start, spans.q_stop, block), spans.q_stop)
    cells, rows = _cells(bound, edges), np.diff(edges)
    most = max(int(cells.sum()) / (GRAINS * ranks), 1.0)
    parts = np.clip(np.ceil(cells / most).astype(np.int64), 1, np.maximum(rows, 1))
    at = np.repeat(np.arange(rows.size), parts)
    part = np.arange(at.size) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(edges[at] + part * rows[at] // parts[at], edges[-1])


def _ways(
    bound: list[tuple[Spans, int]], edges: Array, ranks: int, grid: tuple[int, int, int], name: str
) -> list[tuple[str, Dealing]]:
    q_len, k_len, q_start = grid
    plain = {"contiguous": contiguous, "zigzag": zigzag}
    asked = [*deals.METHODS, *plain] if name == "best" else [name]
    asked = asked if q_len else ["contiguous"]
    if not set(asked) <= {*deals.METHODS, *plain}:
        known = ", ".join(["best", *deals.METHODS, *plain])
        raise MaskError(
            explain("dealing", "must be a way that is known", name, f"use one: {known}")
        )
    # A thousandth by rows, so that rows that see nothing are dealt as well.
    cells, rows = _cells(bound, edges).astype(np.float64), np.diff(edges)
    weight = cells + rows * (max(cells.sum(), 1.0) / 1000 / max(rows.sum(), 1))
    ways = [
        (way, plain[way](ranks, q_start, q_len, k_len))
        if way in plain
        else (way, joined(ranks, edges, deals.METHODS[way](weight, edges, ranks), k_len))
        for way in asked
    ]
    alike = {(d.cuts.tobytes(), d.owner.tobytes()): (way, d) for way, d in reversed(ways)}
    return list(alike.values())[::-1]


def _seen(
    bound: list[tuple[Spans, int]], dealing: Dealing, name: str, reason: str,
    topology: Topology, layer: Layer,
) -> Plan:  # fmt: skip
    """Count the cells and keys of every rank."""
    cuts, k_len = dealing.cuts, dealing.k_len
    cells = np.zeros(dealing.ranks, np.int64)
    np.add.at(cells, dealing.owner, _cells(bound, cuts))
    needs = [loads.needs_of(spans, cuts) for spans, _ in bound]
    stretch, lo, hi = (np.concatenate(x) for x in zip(*needs, strict=True))
    needed = loads.merged((dealing.owner[stretch], lo, hi), k_len)
    each = loads.merged((stretch, lo, hi), k_len)
    return Plan(dealing, cells, needed, each, name, reason, _heaviest(bound), topology, layer)


def _heaviest(bound: list[tuple[Spans, int]]) -> int:
    """Bound the heaviest row's cells from below by that of any one grid; exact for one grid."""
    return max(times * int(_row_cells(spans).max(initial=0)) for spans, times in bound)


def _row_cells(spans: Spans) -> Array:
    """Count the cells of the first and last row of every run: one of them is its heaviest."""
    run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    rows = np.stack([spans.starts, spans.stops - 1])[:, run]
    wide = spans.b - spans.a + (spans.t - spans.s) * rows
    ones = np.bitwise_count(spans.b.view(np.uint64)).astype(np.int64)
    cells = np.zeros((2, spans.starts.size), np.int64)
    np.add.at(cells, (slice(None), run), np.where(spans.bits[run], ones, wide))
    return cells


def _best(plans: list[Plan]) -> Plan:
    """Take, of those that are balanced and about as fast as the fastest, what travels least."""
    least = min(plan.balance for plan in plans)
    equal = [plan for plan in plans if plan.balance <= max(BALANCED, least)]
    even = min(plan.token_balance for plan in equal)
    equal = [plan for plan in equal if plan.token_balance <= max(ROWS, even)]
    fastest = min(plan.seconds for plan in equal)
    near = [plan for plan in equal if plan.seconds <= AS_FAST * fastest]
    best = min(near, key=lambda plan: (plan.bytes, plan.seconds))
    others = [f"{x.name} {x.seconds * 1e3:.3g}" for x in equal if x is not best]
    why = f"{best.seconds * 1e3:.3g} ms a layer by the topology"
    why += f" ({', '.join(others)})" if others else ""
    uneven = [plan.name for plan in plans if plan not in equal]
    why += f"; uneven in cells or rows: {', '.join(uneven)}" if uneven else ""
    return replace(best, reason=why)
