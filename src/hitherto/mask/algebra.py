"""And, or, xor, minus of two Spans of one grid, by merging sorted ends."""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.spans import Array, Spans, interleave, offsets_of, ragged, union
from hitherto.mask.words import constant_rows, reach_of, words_of

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
    if x.grid != y.grid:
        raise MaskError(
            explain("Spans", "must be of one grid to be combined", f"{x!r} and {y!r}",
                    "bind both with the same q_len, k_len and q_start")
        )  # fmt: skip
    starts = union(x.starts, y.starts)
    bits = x.bits[_run(x, starts)] | y.bits[_run(y, starts)]
    if not bits.any():
        return _sweep((x, y), starts, lambda inside: _CELLS[op](*inside))
    smooth = _sweep((x, y), starts[~bits], lambda inside: _CELLS[op](*inside))
    return interleave([smooth, _words(x, y, starts, bits, op)])


def sweep(parts: Sequence[Spans], decide: Callable[[list[Array]], Array]) -> Spans:
    """Combine grids without bits in one pass, by any rule that hides what none of them shows.

    `decide` takes one bool array a grid (is it visible there, between two ends?) and returns one.
    """
    return _sweep(parts, reduce(union, [part.starts for part in parts]), decide)


def _sweep(parts: Sequence[Spans], starts: Array, decide: Callable[[list[Array]], Array]) -> Spans:
    runs = [_run(part, starts) for part in parts]
    events = _events(parts, runs)
    stops = [part.stops[run] for part, run in zip(parts, runs, strict=True)]
    cuts = _meetings(*events[:3], starts, reduce(np.minimum, stops))
    if cuts.size:
        starts = union(starts, cuts)
        events = _events(parts, [_run(part, starts) for part in parts])
    run, offset, slope, part, sign = events
    key = _keyed(run, offset + slope * starts[run])
    order = np.argsort(key, kind="stable")
    key, part, sign = key[order], part[order], sign[order]
    last = np.ones(key.size, bool)
    np.not_equal(key[1:], key[:-1], out=last[:-1])
    inside = [np.cumsum(sign * (part == i))[last] > 0 for i in range(len(parts))]
    state = decide(inside)
    flips = state.copy()
    flips[1:] ^= state[:-1]
    chosen = order[last][flips]
    opened, closed = chosen[::2], chosen[1::2]
    return Spans(
        *parts[0].grid, starts, offsets_of(run[opened], starts.size),
        offset[opened], slope[opened], offset[closed], slope[closed],
        np.zeros(starts.size, bool),
    )  # fmt: skip


def _run(spans: Spans, rows: Array) -> Array:
    """Return the run that holds each row."""
    return np.searchsorted(spans.starts, rows, "right") - 1


def _events(parts: Sequence[Spans], runs: list[Array]) -> tuple[Array, ...]:
    """List both ends of every span in every refined run: (run, offset, slope, part, sign)."""
    run, offset, slope, sizes = [], [], [], []
    for spans, of in zip(parts, runs, strict=True):
        entry, group = ragged(spans.offsets, of)
        run += [group, group]
        offset += [spans.a[entry], spans.b[entry]]
        slope += [spans.s[entry], spans.t[entry]]
        sizes += [entry.size, entry.size]
    part, sign = np.arange(len(sizes)) // 2, np.tile([1, -1], len(parts))
    flat = (np.concatenate(x) for x in (run, offset, slope))
    return *flat, np.repeat(part, sizes), np.repeat(sign, sizes)


def _keyed(run: Array, value: Array) -> Array:
    """Return one integer that sorts by run, then by value."""
    if not value.size:
        return value
    least = value.min()
    return run * (value.max() - least + 1) + (value - least)


def _meetings(run: Array, offset: Array, slope: Array, starts: Array, stops: Array) -> Array:
    """Return the rows inside a run at which a still end meets a moving one, and the rows after."""
    still = slope == 0
    if still.all() or not still.any():
        return starts[:0]
    still_run, still_at = run[still], offset[still]
    move_run, move_at = run[~still], offset[~still]
    key = _keyed(
        np.concatenate([still_run, move_run, move_run]),
        np.concatenate([still_at, move_at + starts[move_run], move_at + stops[move_run] - 1]),
    )
    key, lowest, highest = np.split(key, [still_at.size, still_at.size + move_at.size])
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.searchsorted(key, lowest, "left")
    counts = np.searchsorted(key, highest, "right") - first
    mover = np.repeat(np.arange(counts.size), counts)
    met = order[np.arange(mover.size) - np.repeat(np.cumsum(counts) - counts - first, counts)]
    row = still_at[met] - move_at[mover]
    group = move_run[mover]
    before = row[row > starts[group]]
    return union(before, row[row + 1 < stops[group]] + 1)


def _words(x: Spans, y: Spans, starts: Array, chosen: Array, op: str) -> Spans:
    """Combine the chosen refined runs, where x or y has bits, word by word."""
    for spans in (x, y):
        starts, index = constant_rows(spans, starts, _run(spans, starts), chosen)
        chosen = chosen[index]
    starts = starts[chosen]
    x_of, y_of = _run(x, starts), _run(y, starts)
    # What lies beyond x cannot matter to `and` and `minus`, nor what lies beyond y to `and`.
    x_group, x_word, x_value = words_of(
        x, starts, x_of, reach_of(y, starts, y_of) if op == "and" else None
    )
    y_group, y_word, y_value = words_of(
        y, starts, y_of, reach_of(x, starts, x_of) if op in ("and", "minus") else None
    )
    x_key, y_key = (g * (x.k_len // 64 + 1) + w for g, w in ((x_group, x_word), (y_group, y_word)))
    key = union(x_key, y_key)
    values = np.zeros((2, key.size), np.uint64)
    values[0, np.searchsorted(key, x_key)] = x_value
    values[1, np.searchsorted(key, y_key)] = y_value
    value = _CELLS[op](values[0], values[1])
    key, value = key[value != 0], value[value != 0]
    group, word = np.divmod(key, x.k_len // 64 + 1)
    flat = np.zeros(word.size, np.int64)
    return Spans(
        *x.grid, starts, offsets_of(group, starts.size),
        word, flat, value.view(np.int64), flat, np.ones(starts.size, bool),
    )  # fmt: skip
