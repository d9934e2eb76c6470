"""What one query sees, who sees one key, and which queries see nothing."""

from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.expression import Mask
from hitherto.mask.questions.answer import Bound, bound, each
from hitherto.mask.spans import Array, Spans
from hitherto.mask.words import edges


def empty_rows(
    subject: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Return the absolute positions of the queries that see nothing, int64 ascending."""
    return each(bound(subject, q_len, k_len, q_start), _empty)


def _empty(spans: Spans) -> Array:
    empty = np.repeat(np.diff(spans.offsets) == 0, spans.stops - spans.starts)
    return np.flatnonzero(empty) + spans.q_start


def row(
    subject: Mask | Bound, q: int, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Return the keys that query `q` (absolute) sees: ordered ranges, int64 (n, 2)."""
    return each(bound(subject, q_len, k_len, q_start), lambda spans: ranges_of(spans, q))


def ranges_of(spans: Spans, q: int) -> Array:
    """Return the key ranges of one row."""
    _require("q", q, spans.q_start, spans.q_stop)
    i = int(np.searchsorted(spans.starts, q, "right")) - 1
    entry = slice(spans.offsets[i], spans.offsets[i + 1])
    if spans.bits[i]:
        words = spans.b[entry].view(np.uint64)
        _, lo, hi = edges(np.zeros(words.size, np.int64), spans.a[entry], words)
    else:
        lo, hi = spans.a[entry] + spans.s[entry] * q, spans.b[entry] + spans.t[entry] * q
    return np.stack([lo, hi], 1)


def column(
    subject: Mask | Bound, k: int, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Any:  # fmt: skip
    """Return the queries that see key `k`: ordered ranges of rows, int64 (n, 2). O(spans)."""
    return each(bound(subject, q_len, k_len, q_start), lambda spans: _column(spans, k))


def _column(spans: Spans, k: int) -> Array:
    _require("k", k, 0, spans.k_len)
    run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
    still = (spans.a <= k) | (spans.s == 1), (k < spans.b) | (spans.t == 1)
    first = np.where(spans.t == 1, np.maximum(spans.starts[run], k - spans.b + 1),
                     spans.starts[run])  # fmt: skip
    stop = np.where(spans.s == 1, np.minimum(spans.stops[run], k - spans.a + 1), spans.stops[run])
    shift = np.uint64(k % 64)
    in_word = (spans.a == k // 64) & ((spans.b.view(np.uint64) >> shift & np.uint64(1)) == 1)
    seen = np.where(spans.bits[run], in_word, still[0] & still[1] & (first < stop))
    first = np.where(spans.bits[run], spans.starts[run], first)[seen]
    return joined(first, np.where(spans.bits[run], spans.stops[run], stop)[seen])


def joined(first: Array, stop: Array) -> Array:
    """Join ranges that touch or overlap: ordered, disjoint, int64 (n, 2)."""
    order = np.argsort(first, kind="stable")
    first, stop = first[order], np.maximum.accumulate(stop[order]) if stop.size else stop
    new = np.append(True, first[1:] > stop[:-1])[: first.size]
    last = np.append(new[1:], True)[: first.size]
    return np.stack([first[new], stop[last]], 1)


def _require(argument: str, position: int, start: int, stop: int) -> None:
    if not start <= position < stop:
        raise MaskError(
            explain(argument, f"must lie on the grid, [{start}, {stop})", position,
                    "bind a larger grid")
        )  # fmt: skip
