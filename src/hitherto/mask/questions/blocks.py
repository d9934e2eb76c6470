"""Which tiles of queries x keys are empty, full or partial, without visiting cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hitherto.mask.canonical import canonical
from hitherto.mask.expression import Mask, require_int
from hitherto.mask.hull import pieces
from hitherto.mask.questions.answer import Bound, bound, each
from hitherto.mask.spans import Array, Spans, ragged


@dataclass(frozen=True, slots=True)
class Blocks:
    """Runs of touched tiles.

    Query block i holds rows `q_start + i*bq ..`, key block j keys `j*bk ..`. Query block i touches
    key blocks `[start[e], stop[e])` for the entries e in `offsets[i] .. offsets[i + 1]`, ordered;
    `full[e]` tells whether every cell of these tiles (inside the grid) is visible. Tiles not listed
    are empty.
    """

    bq: int
    bk: int
    offsets: Array
    start: Array
    stop: Array
    full: Array

    def counts(self) -> tuple[int, int]:
        """Return how many tiles are full and how many partial."""
        tiles = self.stop - self.start
        return int(tiles[self.full].sum()), int(tiles[~self.full].sum())


def blocks(
    subject: Mask | Bound, bq: int, bk: int, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Classify the tiles of a grid: Blocks, or an array (batch, heads) of them.

    Args:
        subject: Spans or a Batch; or a mask, with the lengths that follow.
        bq: queries in a tile, >= 1; the last tile may be cut by the grid's end.
        bk: keys in a tile, >= 1; likewise.
    Cost: O(spans + query blocks + runs of tiles).
    """
    for name, size in (("bq", bq), ("bk", bk)):
        require_int(name, size, 1, "128 is usual")
    return each(bound(subject, q_len, k_len, q_start), lambda spans: _blocks(spans, bq, bk))


def _blocks(spans: Spans, bq: int, bk: int) -> Blocks:
    spans = canonical(spans, keep_spans=True)
    edges = np.append(np.arange(spans.q_start, spans.q_stop, bq), spans.q_stop)
    run, q0, q1, tile = pieces(spans, edges)
    entry, piece = ragged(spans.offsets, run)
    a, s, b, t = (x[entry] for x in (spans.a, spans.s, spans.b, spans.t))
    first, last, rows = q0[piece], q1[piece] - 1, (q1 - q0)[piece]
    ends = -(-spans.k_len // bk)
    touched = (a + s * first) // bk, -(-(b + t * last) // bk)
    stop = b + t * first
    covered = -(-(a + s * last) // bk), np.where(stop >= spans.k_len, ends, stop // bk)
    whole = covered[0] < covered[1]

    places = [*touched, covered[0][whole], covered[1][whole]]
    owner = tile[piece]
    tiles = np.concatenate([owner, owner, owner[whole], owner[whole]])
    one, zero, weight = np.ones_like(rows), np.zeros_like(rows), rows[whole]
    seen = np.concatenate([one, -one, 0 * weight, 0 * weight])
    filled = np.concatenate([zero, zero, weight, -weight])
    key = tiles * (ends + 1) + np.concatenate(places)
    order = np.argsort(key, kind="stable")
    key = key[order]
    last_of = np.append(key[1:] != key[:-1], True)[: key.size]
    seen, filled = np.cumsum(seen[order])[last_of], np.cumsum(filled[order])[last_of]
    tiles, at = np.divmod(key[last_of], ends + 1)
    kind = np.where(seen > 0, 1 + (filled == np.diff(edges)[tiles]), 0)
    turn = np.flatnonzero(np.append(True, kind[1:] != kind[:-1])[: kind.size])
    kind, at, tiles = kind[turn], at[turn], tiles[turn]
    real = kind > 0
    after = np.append(at[1:], 0)[: at.size]
    offsets = np.append(0, np.cumsum(np.bincount(tiles[real], minlength=edges.size - 1)))
    return Blocks(bq, bk, offsets, at[real], after[real], kind[real] == 2)
