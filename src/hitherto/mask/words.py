"""Rows as words of 64 keys, and back."""

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.spans import Array, Spans, ragged

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
MAX_WORDS = 1 << 24
"""Words a grid may take before bind refuses: a billion cells, some 2 GiB while it works."""


def fill(group: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """Turn ordered spans `[lo, hi)` of groups into words: (group, word, value), each once."""
    keep = hi > lo
    group, lo, hi = group[keep], lo[keep], hi[keep]
    first, last = lo >> 6, (hi - 1) >> 6
    counts = last - first + 1
    require_room(int(counts.sum()))
    span = np.repeat(np.arange(lo.size), counts)
    word = np.arange(span.size) - np.repeat(np.cumsum(counts) - counts - first, counts)
    value = np.full(span.size, ALL)
    at_first, at_last = word == first[span], word == last[span]
    value[at_first] &= ALL << (lo & 63).astype(np.uint64)
    value[at_last] &= ALL >> (63 - ((hi - 1) & 63)).astype(np.uint64)
    return _joined(group[span], word, value)


def _joined(group: Array, word: Array, value: Array) -> tuple[Array, Array, Array]:
    """Join neighbours that are the same word of the same group."""
    if not word.size:
        return group, word, value
    new = np.ones(word.size, bool)
    new[1:] = (word[1:] != word[:-1]) | (group[1:] != group[:-1])
    at = np.flatnonzero(new)
    return group[at], word[at], np.bitwise_or.reduceat(value, at)


def require_room(words: int) -> None:
    """Raise before an array of bits grows past memory."""
    if words > MAX_WORDS:
        raise MaskError(
            explain("mask", "must stay sparse or regular on a grid this long",
                    f"{words:,} words of 64 cells ({words * 16 / 2**30:.1f} GiB)",
                    "combine it with & Window(...) or bind fewer rows")
        )  # fmt: skip


def spans_per_group(group: Array, word: Array, value: Array, groups: int) -> Array:
    """Count the spans (maximal runs of set bits) of each group of words."""
    opened = np.bitwise_count(value & ~(value << np.uint64(1) | _carry(group, word, value)))
    return np.bincount(group, opened, groups).astype(np.int64)


def edges(group: Array, word: Array, value: Array) -> tuple[Array, Array, Array]:
    """Turn words into maximal spans: (group, lo, hi), ordered."""
    one, top = np.uint64(1), np.uint64(63)
    opened = value & ~(value << one | _carry(group, word, value))
    next_low = np.zeros_like(value)
    touch = (word[1:] == word[:-1] + 1) & (group[1:] == group[:-1])
    next_low[:-1][touch] = value[1:][touch] & one
    closed = value & ~(value >> one | next_low << top)
    at, lo = _positions(opened, word)
    return group[at], lo, _positions(closed, word)[1] + 1


def _carry(group: Array, word: Array, value: Array) -> Array:
    """Return 1 where the word before, of the same group, ends in a set bit."""
    carry = np.zeros_like(value)
    touch = (word[1:] == word[:-1] + 1) & (group[1:] == group[:-1])
    carry[1:][touch] = value[:-1][touch] >> np.uint64(63)
    return carry


def _positions(value: Array, word: Array) -> tuple[Array, Array]:
    """Return (index of the word, key) of each set bit, in order."""
    some = np.flatnonzero(value)
    bits = np.unpackbits(value[some].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    at, bit = np.nonzero(bits)
    return some[at], word[some[at]] * 64 + bit


def constant_rows(spans: Spans, starts: Array, run: Array, chosen: Array) -> tuple[Array, Array]:
    """Split the chosen runs that move with the row into single rows.

    `starts`, `run` describe a refinement of the grid (first row, run of `spans`); returns the
    finer (starts, index into the refinement).
    """
    group = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    moving = np.bincount(group, spans.s | spans.t, spans.starts.size)
    stops = np.append(starts[1:], spans.q_stop)
    counts = np.where(chosen & (moving[run] > 0), stops - starts, 1)
    require_room(int(counts.sum()))
    index = np.repeat(np.arange(starts.size), counts)
    row = np.arange(index.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return starts[index] + row, index


def reach_of(spans: Spans, starts: Array, run: Array) -> Array:
    """Return (first key, key after the last) of row-constant refined runs: (2, runs)."""
    some = spans.offsets[run] < spans.offsets[run + 1]
    run, row, reach = run[some], starts[some], np.zeros((2, starts.size), np.int64)
    first, last, bits = spans.offsets[run], spans.offsets[run + 1] - 1, spans.bits[run]
    reach[0, some] = np.where(bits, spans.a[first] * 64, spans.a[first] + spans.s[first] * row)
    reach[1, some] = np.where(bits, spans.a[last] * 64 + 64, spans.b[last] + spans.t[last] * row)
    return reach


def words_of(
    spans: Spans, starts: Array, run: Array, within: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return (group, word, value) of row-constant refined runs, clipped to the grid.

    `within` (2, runs) are the keys that matter: spans beyond them may be left out.
    """
    entry, group = ragged(spans.offsets, run)
    bits = spans.bits[run][group]
    row = starts[group]
    least, most = (0, spans.k_len) if within is None else np.clip(within, 0, spans.k_len)[:, group]
    lo = np.maximum(spans.a[entry] + spans.s[entry] * row, least)
    hi = np.minimum(spans.b[entry] + spans.t[entry] * row, most)
    g, w, v = fill(group[~bits], lo[~bits], hi[~bits])
    if not bits.any():
        return g, w, v
    if bits.all():
        return group, spans.a[entry], spans.b[entry].view(np.uint64)
    kept = entry[bits]
    g = np.concatenate([g, group[bits]])
    order = np.argsort(g, kind="stable")
    w = np.concatenate([w, spans.a[kept]])[order]
    return g[order], w, np.concatenate([v, spans.b[kept].view(np.uint64)])[order]
