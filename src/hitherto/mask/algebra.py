"""And, or, xor, minus of two Spans of one grid, by merging sorted ends."""

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.spans import Array, Spans, interleave, ragged
from hitherto.mask.words import constant_rows, words_of

_CELLS = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "minus": lambda x, y: x & ~y,
}


def combine(x: Spans, y: Spans, op: str) -> Spans:
    """Combine two grids cell by cell. The result is exact but not yet canonical.

    Rows are cut where the runs of x or y begin, and where an end that stands still meets one that
    moves; between cuts the order of all ends is constant, so one sort and a running count decide.
    """
    if (x.q_start, *x.shape) != (y.q_start, *y.shape):
        raise MaskError(
            explain("Spans", "must be of one grid to be combined", f"{x!r} and {y!r}",
                    "bind both with the same q_len, k_len and q_start")
        )  # fmt: skip
    starts = np.union1d(x.starts, y.starts)
    bits = x.bits[_run(x, starts)] | y.bits[_run(y, starts)]
    if not bits.any():
        return _merge(x, y, starts, op)
    return interleave([_merge(x, y, starts[~bits], op), _words(x, y, starts, bits, op)])


def _run(spans: Spans, rows: Array) -> Array:
    """Return the run that holds each row."""
    return np.searchsorted(spans.starts, rows, "right") - 1


def _events(x: Spans, y: Spans, starts: Array) -> tuple[Array, ...]:
    """List both ends of every span in every refined run: (run, offset, slope, in x, in y)."""
    parts = []
    for spans, in_x in ((x, 1), (y, 0)):
        entry, group = ragged(spans.offsets, _run(spans, starts))
        for offset, slope, sign in ((spans.a, spans.s, 1), (spans.b, spans.t, -1)):
            weight = np.full(entry.size, sign)
            parts.append((group, offset[entry], slope[entry], weight * in_x, weight * (1 - in_x)))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _merge(x: Spans, y: Spans, starts: Array, op: str) -> Spans:
    starts = _cut(x, y, starts)
    run, offset, slope, in_x, in_y = _events(x, y, starts)
    key = _keyed(run, offset + slope * starts[run])
    order = np.argsort(key, kind="stable")
    key = key[order]
    last = np.ones(key.size, bool)
    last[:-1] = key[1:] != key[:-1]
    state = _CELLS[op](np.cumsum(in_x[order])[last] > 0, np.cumsum(in_y[order])[last] > 0)
    flips = state.copy()
    flips[1:] ^= state[:-1]
    chosen = order[last][flips]
    opened, closed = chosen[::2], chosen[1::2]
    counts = np.bincount(run[opened], minlength=starts.size)
    return Spans(
        x.q_start, x.q_len, x.k_len, starts, np.append(0, np.cumsum(counts)),
        offset[opened], slope[opened], offset[closed], slope[closed],
        np.zeros(starts.size, bool),
    )  # fmt: skip


def _keyed(run: Array, value: Array) -> Array:
    """Return one integer that sorts by run, then by value."""
    if not value.size:
        return value
    least = value.min()
    return run * (value.max() - least + 1) + (value - least)


def _cut(x: Spans, y: Spans, starts: Array) -> Array:
    """Add the rows at which a still end and a moving end meet, and the rows after them."""
    run, offset, slope, _, _ = _events(x, y, starts)
    stops = np.minimum(x.stops[_run(x, starts)], y.stops[_run(y, starts)])
    still = slope == 0
    if still.all() or not still.any():
        return starts
    still_run, still_at = run[still], offset[still]
    move_run, move_at = run[~still], offset[~still]
    lo, hi = move_at + starts[move_run], move_at + stops[move_run] - 1
    every = _keyed(
        np.concatenate([still_run, move_run, move_run]), np.concatenate([still_at, lo, hi])
    )
    key, lo, hi = np.split(every, [still_at.size, still_at.size + lo.size])
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], lo, "left")
    counts = np.searchsorted(key[order], hi, "right") - first
    mover = np.repeat(np.arange(lo.size), counts)
    met = order[np.arange(mover.size) - np.repeat(np.cumsum(counts) - counts - first, counts)]
    row = still_at[met] - move_at[mover]
    cuts = np.concatenate([row, row + 1])
    group = np.tile(move_run[mover], 2)
    inside = (cuts > starts[group]) & (cuts < stops[group])
    return np.union1d(starts, cuts[inside])


def _words(x: Spans, y: Spans, starts: Array, chosen: Array, op: str) -> Spans:
    """Combine the chosen refined runs, where x or y has bits, word by word."""
    for spans in (x, y):
        starts, index = constant_rows(spans, starts, _run(spans, starts), chosen)
        chosen = chosen[index]
    starts = starts[chosen]
    sides = []
    for spans in (x, y):
        group, word, value = words_of(spans, starts, _run(spans, starts))
        sides.append((group * (x.k_len // 64 + 1) + word, value))
    (x_key, x_value), (y_key, y_value) = sides
    key = np.union1d(x_key, y_key)
    values = np.zeros((2, key.size), np.uint64)
    values[0, np.searchsorted(key, x_key)] = x_value
    values[1, np.searchsorted(key, y_key)] = y_value
    value = _CELLS[op](values[0], values[1])
    key, value = key[value != 0], value[value != 0]
    group, word = np.divmod(key, x.k_len // 64 + 1)
    counts = np.bincount(group, minlength=starts.size)
    flat = np.zeros(word.size, np.int64)
    return Spans(
        x.q_start, x.q_len, x.k_len, starts, np.append(0, np.cumsum(counts)),
        word, flat, value.view(np.int64), flat, np.ones(starts.size, bool),
    )  # fmt: skip
