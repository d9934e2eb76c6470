"""Which tiles of queries x keys are empty, full or partial, without visiting cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hitherto.mask.canonical import canonical
from hitherto.mask.expression import Mask, require_int
from hitherto.mask.hull import pieces
from hitherto.mask.questions.answer import Bound, bound, each
from hitherto.mask.spans import Array, Spans, offsets_of, ragged


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
    edges = np.append(np.arange(spans.q_start, spans.q_stop, bq), spans.q_stop)
    ends = -(-spans.k_len // bk)
    if bk % 64:
        touching = covering = canonical(spans, keep_spans=True)
    else:
        touching, covering = _stretches(spans, whole=False), _stretches(spans, whole=True)
    tile, (lo, _), (_, hi), _ = _extents(touching, edges)
    full_tile, (_, full_lo), (full_hi, _), rows = _extents(covering, edges)
    full_lo = -(-full_lo // bk)
    full_hi = np.where(full_hi >= spans.k_len, ends, full_hi // bk)
    some = full_lo < full_hi
    full_tile, rows = full_tile[some], rows[some]

    tiles = np.concatenate([tile, tile, full_tile, full_tile])
    places = np.concatenate([lo // bk, -(-hi // bk), full_lo[some], full_hi[some]])
    one, zero = np.ones_like(tile), np.zeros_like(tile)
    seen = np.concatenate([one, -one, 0 * rows, 0 * rows])
    filled = np.concatenate([zero, zero, rows, -rows])
    key = tiles * (ends + 1) + places
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


def _extents(spans: Spans, edges: Array) -> tuple[Array, Array, Array, Array]:
    """Cut spans at `edges`: (stretch, start at first and last row, end at both, rows)."""
    run, q0, q1, stretch = pieces(spans, edges)
    entry, piece = ragged(spans.offsets, run)
    rows = np.stack([q0, q1 - 1])[:, piece]
    lo = spans.a[entry] + spans.s[entry] * rows
    return stretch[piece], lo, spans.b[entry] + spans.t[entry] * rows, (q1 - q0)[piece]


def _stretches(spans: Spans, whole: bool) -> Spans:
    """Write words as spans of whole words: those with all their keys visible, or with any."""
    run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    bits = spans.bits[run]
    lo, hi = np.where(bits, spans.a * 64, spans.a), np.where(bits, spans.a * 64 + 64, spans.b)
    width = np.minimum(hi, spans.k_len) - lo
    keep = ~bits | (np.bitwise_count(spans.b.view(np.uint64)) >= (width if whole else 1))
    run, bits, lo, hi, s, t = (x[keep] for x in (run, bits, lo, hi, spans.s, spans.t))
    joins = bits[1:] & bits[:-1] & (run[1:] == run[:-1]) & (lo[1:] == hi[:-1])
    first, last = (np.ones(lo.size, bool) for _ in range(2))
    first[1:], last[:-1] = ~joins, ~joins
    return Spans(
        *spans.grid, spans.starts, offsets_of(run[first], spans.starts.size), lo[first], s[first],
        hi[last], t[last], np.zeros(spans.starts.size, bool),
    )  # fmt: skip
