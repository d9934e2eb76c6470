"""Ways to give every rank equal cells. Each places some rows, and cuts the rest to fit.

Rows come in grains: `edges` (grains + 1,) and the `weight` of each. `filled` is the step that all
share: what is left is cut, in order, so that every rank ends with its share.
"""

from collections.abc import Callable

import numpy as np

Array = np.ndarray

ROUNDS = 8
"""Chunks a rank in `dealt`: more balance better, fewer keep neighbours together."""

LARGEST = 4
"""A chunk holds at most 1 / LARGEST of a rank's cells, so that light ones can make up for it."""

HEAVY = 16
"""Rows that see so many times the mean are heavy: the global rows of a sparse mask."""


def cut(weight: Array, edges: Array, ranks: int) -> Array:
    """One stretch a rank: the least that travels where queries look nearby."""
    owner = np.full(weight.size, -1)
    return filled(owner, weight, np.arange(ranks))


def folded(weight: Array, edges: Array, ranks: int) -> Array:
    """Two stretches a rank: the first half by rows, the second backwards by what is missing.

    On a causal mask this is zigzag; where rows do not grow evenly it stays exact.
    """
    owner = np.full(weight.size, -1)
    half = int(np.searchsorted(edges, (edges[0] + edges[-1]) // 2))
    rows = (edges[:half] - edges[0]) * 2 * ranks // max(int(edges[-1] - edges[0]), 1)
    owner[:half] = np.minimum(rows, ranks - 1)
    return filled(owner, weight, np.arange(ranks)[::-1])


def spread(weight: Array, edges: Array, ranks: int) -> Array:
    """Heavy rows one by one to all ranks; the others one stretch a rank."""
    per_row = weight / np.diff(edges)
    heavy = np.flatnonzero(per_row > HEAVY * weight.sum() / (edges[-1] - edges[0]))
    owner = np.full(weight.size, -1)
    owner[heavy] = in_rounds(weight[heavy], ranks)
    return filled(owner, weight, np.arange(ranks))


def dealt(weight: Array, edges: Array, ranks: int) -> Array:
    """Chunks of equal length in rounds: equal rows as well as equal cells, on any mask."""
    rows = (edges[:-1] - edges[0]) * ROUNDS * ranks // max(int(edges[-1] - edges[0]), 1)
    before = np.cumsum(weight) - weight
    share = (before * (LARGEST * ranks / weight.sum())).astype(np.int64)
    new = np.append(True, (np.diff(rows) > 0) | (np.diff(share) > 0))
    chunk = np.cumsum(new) - 1
    return in_rounds(np.bincount(chunk, weight), ranks)[chunk]


METHODS: dict[str, Callable[[Array, Array, int], Array]] = {
    "cut": cut,
    "folded": folded,
    "spread": spread,
    "dealt": dealt,
}
"""Every way there is: grains' weights, edges and ranks to the owner of each grain."""


def in_rounds(weight: Array, ranks: int) -> Array:
    """Deal items, heaviest first, in rounds of one a rank: the heaviest to the least loaded."""
    owner, load = np.empty(weight.size, np.int64), np.zeros(ranks)
    order = np.argsort(-weight, kind="stable")
    for first in range(0, weight.size, ranks):
        items = order[first : first + ranks]
        takers = np.argsort(load, kind="stable")[: items.size]
        owner[items] = takers
        load[takers] += weight[items]
    return owner


def filled(owner: Array, weight: Array, order: Array) -> Array:
    """Give grains without an owner (-1) to the ranks in `order`, each as many as it has room for.

    A grain on a border goes to the side that holds more of it.
    """
    placed = owner >= 0
    load = np.bincount(owner[placed], weight[placed], order.size)
    room = np.maximum(weight.sum() / order.size - load, 0)[order]
    left = weight[~placed]
    if left.size:
        ends = np.cumsum(room) * (left.sum() / max(room.sum(), 1e-300))
        middle = np.cumsum(left) - left / 2
        owner[~placed] = order[np.minimum(np.searchsorted(ends, middle), order.size - 1)]
    return owner
