"""Tree: drafts after a text, where each token sees its ancestors."""

from collections.abc import Iterator

import numpy as np

from hitherto.lowering.recognise.region import Region
from hitherto.mask import Mask, Tree

MOST_NODES = 2048


def trees(on: Region, off: Region) -> Iterator[Mask]:
    """Yield the tree in which a token's parent is the deepest of the other tokens it sees."""
    rows = on.rows.sum()
    if on.batch > 1 or on.q_stop < on.k_len or on.q.size == rows or on.ahead[1] > 0:
        return
    text = int(np.argmin(np.append(on.of_key[0] == on.of_key[0, 0], False)))
    for start in dict.fromkeys([on.q_start, text, 0]):
        parents = _parents(on, start)
        if parents is not None:
            yield Tree(parents, start)


def _parents(on: Region, start: int) -> np.ndarray | None:
    nodes = on.positions - start
    if not 1 < nodes <= MOST_NODES or start < on.q_start:
        return None
    inside = (on.q >= start) & (on.hi > start)
    q, lo, hi = (x[inside] - start for x in (on.q, on.lo, on.hi))
    steps = np.zeros((nodes, nodes + 1), np.int8)
    steps[q, np.maximum(lo, 0)] += 1
    np.subtract.at(steps, (q, hi), 1)
    seen = np.cumsum(steps, 1, dtype=np.int8)[:, :-1] > 0
    depth = seen.sum(1)
    np.fill_diagonal(seen, False)
    rank = np.where(seen, depth, -1)
    parents = np.where(seen.any(1), rank.argmax(1), -1)
    return parents if (depth[parents] < depth)[parents >= 0].all() else None
