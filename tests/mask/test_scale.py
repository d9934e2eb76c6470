"""A million tokens: few runs, little memory. No clock here: benchmarks/bench_masks.py has one."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import hitherto.mask.words as words
from hitherto.mask import (
    Causal,
    Chunks,
    MaskError,
    Predicate,
    Prefix,
    Segments,
    Timeline,
    Window,
    bind,
    blocks,
    column,
    density,
    difference,
    empty_rows,
    equal,
    is_causal,
    live_keys,
    pairs,
    parse,
    row,
    subset,
    work,
)

N = 1 << 20
MIB = 1 << 20
PACKED = Segments.from_lengths([N // 10_000] * 9_999 + [N - N // 10_000 * 9_999])
SINKS = Causal() & (Window(4096) | Prefix(4))


def peak(ask: Callable[[], object]) -> float:
    """Return the most memory held during a call, beyond what was held before, in MiB."""
    tracemalloc.start()
    try:
        ask()
        return tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("mask", "runs", "spans", "cells"),
    [
        (Causal(), 1, 1, N * (N + 1) // 2),
        (Window(4096), 2, 2, 4096 * N - 4096 * 4095 // 2),
        (Causal() & Prefix(100), 2, 2, 100 * N - 100 * 99 // 2),
        (Causal() | Prefix(100), 2, 2, N * (N + 1) // 2 + 100 * 99 // 2),
        (SINKS, 2, 3, None),
        (Causal() & Chunks(8192), N // 8192, N // 8192, N // 8192 * (8192 * 8193 // 2)),
        (Causal() & PACKED, 10_000, 10_000, None),
        (Causal() & PACKED & Window(64), 20_000, 20_000, None),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_million_tokens_bind_to_few_runs(mask, runs, spans, cells):
    """Cost by the row: a million runs, or an array of queries x keys."""
    bound = bind(mask, N, N)
    assert bound.starts.size == runs
    assert bound.a.size == spans
    assert cells in (None, pairs(bound))
    assert peak(lambda: bind(mask, N, N)) < 50


@pytest.mark.parametrize(
    "mask", [Causal(), SINKS, Causal() & PACKED & Window(64)], ids=("causal", "sinks", "packed")
)
def test_questions_about_a_million_tokens_take_little_memory(mask):
    """A question that looks at every row, column or tile of a million."""
    spans = bind(mask, N, N)
    other = bind(Causal(), N, N)
    asked = {
        "pairs": lambda: pairs(spans),
        "density": lambda: density(spans),
        "empty_rows": lambda: empty_rows(spans),
        "is_causal": lambda: is_causal(spans),
        "is_causal at every length": lambda: is_causal(mask),
        "equal": lambda: equal(spans, other),
        "subset": lambda: subset(spans, other),
        "difference": lambda: difference(spans, other),
        "row": lambda: row(spans, N // 2),
        "column": lambda: column(spans, N // 2),
        "work": lambda: work(spans, N // 4, N // 2),
        "rows": lambda: spans.rows(N // 4, N // 2),
        "live_keys": lambda: live_keys(mask, N // 2),
        "blocks": lambda: blocks(spans, 128, 128),
    }
    for name, ask in asked.items():
        assert peak(ask) < 50, name
    assert is_causal(spans)
    assert subset(spans, other)


def test_blocks_of_a_million_tokens_count_every_tile():
    """67 million tiles, listed as 8192 rows of at most two runs."""
    found = blocks(bind(Causal(), N, N), 128, 128)
    side = N // 128
    assert found.counts() == (side * (side - 1) // 2, side)
    assert found.offsets[-1] == 2 * side - 1
    found = blocks(bind(Causal() & PACKED & Window(64), N, N), 128, 128)
    full, partial = found.counts()
    assert full == 0
    assert side <= partial < 3 * side


def test_a_decode_step_at_a_million_is_one_run():
    """One query that costs what a million do."""
    spans = bind(SINKS, 1, N)
    assert row(spans, N - 1).tolist() == [[0, 4], [N - 4096, N]]
    assert peak(lambda: bind(Causal() & PACKED & Window(64), 1, N)) < 50


def test_sorted_times_of_a_million_frames_stay_small():
    """A timeline compared pair by pair."""
    times = np.arange(N) / 25
    mask = Timeline(times[::1], times, lookahead=0)
    assert bind(mask, 4096, N).k_len == N
    assert peak(lambda: bind(mask, 4096, N)) < 200
    assert equal(bind(mask, 4096, N), bind(Causal(), 4096, N))


def test_long_lengths_do_not_overflow():
    """int64 sums of rows times ends, on grids of up to 2**62 cells."""
    n = 2**31 - 1
    assert pairs(Window(3), n) == 3 * n - 3
    assert pairs(Causal(), n) == n * (n + 1) // 2
    assert work(bind(Causal(), n, n), n - 3, n) == 3 * n - 3
    assert density(Causal(), n) == pytest.approx(0.5)
    assert row(bind(Causal() & Window(7), 1, 2**40), 2**40 - 1).tolist() == [[2**40 - 7, 2**40]]
    with pytest.raises(MaskError, match="q_len"):
        bind(Causal(), 2**32, 2**32)


def test_opaque_masks_are_asked_only_where_the_others_look():
    """A predicate over a million by a million, asked cell by cell though a window hides most."""
    asked = []

    def rule(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        asked.append(q.size * k.size)
        return (q + k) % 3 == 0

    n = 1 << 14
    spans = bind(Predicate(rule, "rule") & Window(64), n, n)
    assert sum(asked) < 64 * n * 8
    seen = ((q + k) % 3 == 0 for q in range(n) for k in range(max(q - 63, 0), q + 1))
    assert pairs(spans) == sum(seen)


def test_a_mask_too_irregular_for_memory_is_refused(monkeypatch):
    """Every other cell of a million by a million: 2**39 bits, written until memory ends."""
    monkeypatch.setattr(words, "MAX_WORDS", 1000)
    with pytest.raises(MaskError, match="Window"):
        bind(parse("Strided(2)"), 400, 4000)
    assert bind(parse("Strided(2) & Window(64)"), 400, 4000).k_len == 4000
