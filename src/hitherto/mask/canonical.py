"""One form for one set of cells: rows as spans or bits by their count, runs as long as can be.

Runs are cut greedily from the first row: a run takes the next row while every end moves as it did
from the run's first row to its second. A run of one row counts as standing still.
"""

import numpy as np

from hitherto.mask import spans as limits
from hitherto.mask.spans import Array, Spans, interleave, offsets_of, ragged
from hitherto.mask.words import constant_rows, edges, spans_per_group, words_of


def canonical(spans: Spans, keep_spans: bool = False) -> Spans:
    """Return the canonical form of the same cells.

    Args:
        spans: well-formed runs: spans ordered, disjoint, not touching, none of them empty.
        keep_spans: write every row as spans, however many (for steps that take no bits).
    """
    spans = _settled(spans, limits.MAX_SPANS if not keep_spans else spans.k_len)
    return spans if spans.starts.size <= 1 and spans.q_len > 1 else _greedy(spans)


def _settled(spans: Spans, most: int) -> Spans:
    """Keep a row with more than `most` spans as bits, and any other as spans."""
    crowded = ~spans.bits & (np.diff(spans.offsets) > most)
    if not crowded.any() and not spans.bits.any():
        return spans
    starts, index = constant_rows(spans, spans.starts, np.arange(spans.starts.size), crowded)
    unsettled = (crowded | spans.bits)[index]
    rows = starts[unsettled]
    group, word, value = words_of(spans, rows, index[unsettled])
    sparse = spans_per_group(group, word, value, rows.size) <= most
    few = sparse[group]
    parts = [
        _taken(spans, starts[~unsettled], index[~unsettled]),
        _as_spans(spans, rows[sparse], np.cumsum(sparse) - 1, group[few], word[few], value[few]),
        _as_bits(
            spans, rows[~sparse], np.cumsum(~sparse) - 1, group[~few], word[~few], value[~few]
        ),
    ]
    return interleave([part for part in parts if part.starts.size])


def _taken(spans: Spans, starts: Array, run: Array) -> Spans:
    entry, group = ragged(spans.offsets, run)
    columns = (array[entry] for array in (spans.a, spans.s, spans.b, spans.t))
    return _part(spans, starts, group, *columns, bits=False)


def _as_spans(
    spans: Spans, starts: Array, place: Array, group: Array, word: Array, value: Array
) -> Spans:
    group, lo, hi = edges(group, word, value)
    still = np.zeros(lo.size, np.int64)
    return _part(spans, starts, place[group], lo, still, hi, still, bits=False)


def _as_bits(
    spans: Spans, starts: Array, place: Array, group: Array, word: Array, value: Array
) -> Spans:
    still = np.zeros(word.size, np.int64)
    return _part(spans, starts, place[group], word, still, value.view(np.int64), still, bits=True)


def _part(
    spans: Spans, starts: Array, group: Array, a: Array, s: Array, b: Array, t: Array, bits: bool
) -> Spans:
    return Spans(
        *spans.grid, starts, offsets_of(group, starts.size), a, s, b, t, np.full(starts.size, bits)
    )


def _greedy(spans: Spans) -> Spans:
    runs, lengths = spans.starts.size, spans.stops - spans.starts
    if not runs:
        return spans
    group = np.repeat(np.arange(runs), np.diff(spans.offsets))
    single = lengths[group] == 1
    s, t = np.where(single, 0, spans.s), np.where(single, 0, spans.t)
    ends = np.stack([spans.a, spans.b]) + np.stack([spans.s, spans.t]) * spans.starts[group]
    slopes = np.stack([s, t])
    joins, moved = _moves(spans, group, ends, slopes, lengths)

    same = _all_equal(moved, slopes, group, runs)
    earlier = _previous_entry(spans, group, joins)
    before = np.where((lengths > 1)[group[earlier]], slopes[:, earlier], moved[:, earlier])
    continues = _all_equal(moved, before, group, runs)
    cut_at_start, cut_inside = _cuts(joins, continues, same, lengths)

    heads = np.stack([cut_at_start, cut_inside], 1).ravel()
    source, second = np.divmod(np.flatnonzero(heads), 2)
    starts = spans.starts[source] + second
    inner = lengths[source] - second > 1
    follows = np.append(joins & ~cut_at_start, False)[source + 1] & ~inner
    entry, owner = ragged(spans.offsets, source)
    next_entry = np.minimum(entry + np.diff(spans.offsets)[source][owner], spans.a.size - 1)
    slope = np.where(
        inner[owner], slopes[:, entry], np.where(follows[owner], moved[:, next_entry], 0)
    )
    value = ends[:, entry] + slopes[:, entry] * second[owner] - slope * starts[owner]
    return Spans(
        *spans.grid,
        starts,
        offsets_of(owner, starts.size),
        value[0],
        slope[0],
        value[1],
        slope[1],
        spans.bits[source],
    )


def _moves(
    spans: Spans, group: Array, ends: Array, slopes: Array, lengths: Array
) -> tuple[Array, Array]:
    """Compare each run's first row with the row before it.

    Returns whether the step could lie inside one run, and how far each end moves in it.
    """
    counts = np.diff(spans.offsets)
    joins = np.zeros(counts.size, bool)
    joins[1:] = (counts[1:] == counts[:-1]) & (spans.bits[1:] == spans.bits[:-1])
    earlier = _previous_entry(spans, group, joins)
    last = ends[:, earlier] + slopes[:, earlier] * (lengths[group[earlier]] - 1)
    moved = ends - last
    allowed = (moved == 0) | ((moved == 1) & ~spans.bits[group])
    joins &= np.bincount(group, (~allowed).any(0), counts.size) == 0
    return joins, moved


def _previous_entry(spans: Spans, group: Array, joins: Array) -> Array:
    """Return the entry in the same place of the run before; itself where there is none."""
    counts = np.diff(spans.offsets)
    back = np.where(joins, np.append(0, counts[:-1]), 0)
    return np.arange(group.size) - back[group]


def _all_equal(one: Array, two: Array, group: Array, runs: int) -> Array:
    """Tell for each run whether all its ends agree in two (2, entries) arrays."""
    return np.bincount(group, (one != two).any(0), runs) == 0


def _cuts(joins: Array, continues: Array, same: Array, lengths: Array) -> tuple[Array, Array]:
    """Decide where greedy runs begin: at a run's first row, or at its second.

    Walk the steps between neighbouring rows, three a run: into it, its first inner step, a later
    inner step. A step that cannot be joined is a cut. A step that moves otherwise than the one
    before it is a cut unless that one was, so in a chain of such steps every other is.
    """
    steps = np.stack([np.ones_like(joins), lengths > 1, lengths > 2], 1)
    broken = np.stack([~joins, *[np.zeros_like(joins)] * 2], 1)[steps]
    turns = np.stack([joins & ~continues, joins & ~same, np.zeros_like(joins)], 1)[steps]
    at = np.arange(broken.size)
    anchor = np.maximum.accumulate(np.where(turns, 0, at))
    odd = (at - anchor) % 2 == 1
    cut = broken | (turns & (odd ^ broken[anchor]))
    table = np.zeros(steps.shape, bool)
    table[steps] = cut
    return table[:, 0], table[:, 1]
