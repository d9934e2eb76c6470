"""Spans row by row: the keys that a few rows see, as ranges or as a small bool tile."""

import numpy as np
from jaxtyping import Bool, Int

from hitherto.mask import Spans

Array = np.ndarray


def entries(
    spans: Spans, start: int, stop: int
) -> tuple[Int[Array, " ranges"], Int[Array, " ranges"], Int[Array, " ranges"]]:
    """List what the rows `start .. stop` (counted from the grid's first) see.

    Returns:
        row (from `start`), lo and hi of each visible key range `[lo, hi)`, ordered by row and key.
        Rows that are kept as bits give one range a key.
    """
    rows = np.arange(spans.q_start + start, spans.q_start + stop)
    run = np.searchsorted(spans.starts, rows, "right") - 1
    first, counts = spans.offsets[run], spans.offsets[run + 1] - spans.offsets[run]
    row = np.repeat(np.arange(rows.size), counts)
    entry = np.arange(row.size) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    bits = spans.bits[run][row]
    if not bits.any():
        return row, *_ends(spans, entry, rows[row])
    word, value = spans.a[entry[bits]], spans.b[entry[bits]]
    cells = np.unpackbits(value.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    at, bit = np.nonzero(cells)
    key = word[at] * 64 + bit
    lo, hi = _ends(spans, entry[~bits], rows[row[~bits]])
    row = np.concatenate([row[~bits], row[bits][at]])
    order = np.argsort(row, kind="stable")
    return row[order], np.concatenate([lo, key])[order], np.concatenate([hi, key + 1])[order]


def _ends(spans: Spans, entry: Array, row: Array) -> tuple[Array, Array]:
    lo = spans.a[entry] + spans.s[entry] * row
    return lo, spans.b[entry] + spans.t[entry] * row


Places = tuple[Int[Array, " ranges"], Int[Array, " ranges"], Int[Array, " ranges"]]


def places(spans: Spans, start: int, stop: int, keys: Int[Array, " keys"]) -> Places:
    """Do as `entries`, with lo and hi counted in `keys`, some increasing keys of the grid."""
    row, lo, hi = entries(spans, start, stop)
    return row, np.searchsorted(keys, lo), np.searchsorted(keys, hi)


def cells(rows: int, keys: int, ranges: Places) -> Bool[Array, "queries keys"]:
    """Fill a tile of `rows` by `keys` cells."""
    row, lo, hi = ranges
    edge = np.zeros(rows * (keys + 1), np.int8)
    # Ranges of a row may touch once the keys between them are left out, so the ends are added up.
    np.add.at(edge, row * (keys + 1) + lo, 1)
    np.add.at(edge, row * (keys + 1) + hi, -1)
    return edge.reshape(rows, keys + 1)[:, :-1].cumsum(1, dtype=np.int8) > 0
