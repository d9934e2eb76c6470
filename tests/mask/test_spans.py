"""Spans: exact, canonical, and the same whatever expression led to them."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given

import hitherto.mask.spans as limits
from hitherto.mask import (
    Batch,
    Causal,
    Mask,
    MaskError,
    PerHead,
    Segments,
    Spans,
    Strided,
    Table,
    bind,
    bind_batch,
    evaluate,
    parse,
    select,
)
from oracle import Run, normal_form
from strategies import EDGES, Case, cases, cases_on_one_grid, seeded_case

TINY = (1, 2)
"""Values of MAX_SPANS under which small grids hold both spans and bits."""


def runs_of(spans: Spans) -> list[Run]:
    """Return the arrays as the oracle writes them."""
    runs = []
    for i, start in enumerate(spans.starts.tolist()):
        entries = slice(spans.offsets[i], spans.offsets[i + 1])
        columns = (getattr(spans, name)[entries].tolist() for name in "asbt")
        runs.append((start, list(zip(*columns, strict=True)), bool(spans.bits[i])))
    return runs


def check(case: Case, max_spans: int) -> None:
    """Cells equal the meaning, and the arrays equal the greedy normal form of those cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", max_spans)
        spans = bind(case.mask, *case.grid)
        dense = evaluate(case.mask, case.q_pos, case.k_pos)
        assert np.array_equal(spans.dense(), dense)
        assert runs_of(spans) == normal_form(dense, case.q_start, max_spans)
        assert all(
            getattr(spans, name).dtype == np.int64 for name in ("starts", "offsets", *"asbt")
        )
        assert spans.bits.dtype == bool
        assert spans.shape == (case.q_len, case.k_len)


@given(cases())
def test_spans_are_the_normal_form_of_the_meaning(case: Case):
    """A cell shown or hidden by mistake; two forms for one set."""
    check(case, limits.MAX_SPANS)


@pytest.mark.parametrize("max_spans", TINY)
@given(case=cases())
def test_rows_of_bits_are_the_normal_form_of_the_meaning(max_spans: int, case: Case):
    """Bits, which small grids never reach at the real limit."""
    check(case, max_spans)


@pytest.mark.parametrize("max_spans", [*TINY, limits.MAX_SPANS])
@given(case=cases(sizes=EDGES, leaves=5))
def test_spans_hold_at_the_edges_of_words_and_blocks(max_spans: int, case: Case):
    """The last bit of a word: 63, 64, 65 keys."""
    check(case, max_spans)


@pytest.mark.slow
@pytest.mark.parametrize("max_spans", [*TINY, limits.MAX_SPANS])
def test_spans_hold_for_twenty_thousand_expressions(max_spans: int):
    """What sixty examples miss."""
    count = 20_000 if max_spans == limits.MAX_SPANS else 5_000
    for seed in range(count):
        sizes = {"sizes": EDGES} if seed % 10 == 0 else {}
        check(seeded_case(seed, leaves=1 + seed % 8, **sizes), max_spans)


SMALL_MASKS = [
    parse(text)
    for text in (
        "Causal()", "Window(2)", "Band(1, 1)", "Band(-1, 2)", "Prefix(2)", "Chunks(2, start=1)",
        "Dilated(2, 2)", "Strided(2)", "BlockCausal(2)", "Keys(range(1, 3))",
        "Segments([0, 0, -1, 1, 1, 0, 2, 2, -1, 0, 0, 1])",
        "Tree([-1, 0, 0, 2, 1, -1, 5, 5, 3], 3)",
    )
]  # fmt: skip


def exhaust(mask: Mask, max_spans: int) -> None:
    for q_len, k_len, q_start in np.ndindex(7, 7, 3):
        check(Case(mask, q_len, k_len, 2 * q_start), max_spans)


@pytest.mark.parametrize("mask", SMALL_MASKS, ids=str)
def test_every_small_grid_of_every_primitive(mask: Mask):
    """Exhausted, not sampled: all grids up to 6 x 6, empty ones too, at three offsets."""
    exhaust(mask, 2)


@pytest.mark.slow
@pytest.mark.parametrize("mask", SMALL_MASKS, ids=str)
def test_every_small_grid_of_every_pair(mask: Mask):
    """Two rules whose edges cross just once."""
    for other in SMALL_MASKS:
        exhaust(mask & ~other, 1)
        exhaust(mask ^ other, 2)


CROWDED = [
    (Strided(2), 70, 700),
    (Causal() & Strided(3), 300, 900),
    (Table(np.random.default_rng(0).random((600, 600)) < 0.5), 90, 600),
    (Segments(np.random.default_rng(1).integers(-1, 2, 700)), 70, 700),
    (parse("~(Strided(2) & Causal()) ^ Strided(5)"), 130, 520),
    (parse("Strided(2) & Window(255)"), 40, 600),
    (parse("Strided(2) & Window(258)"), 40, 600),
]


@pytest.mark.parametrize(
    ("mask", "q_len", "k_len"), CROWDED, ids=[str(m)[:40] for m, *_ in CROWDED]
)
def test_rows_on_both_sides_of_the_real_limit(mask, q_len, k_len):
    """A limit on spans that holds when built, but not after `&`."""
    check(Case(mask, q_len, k_len, k_len - q_len), limits.MAX_SPANS)
    kept, other = bind(mask, q_len, k_len), bind(parse("Window(200) | Prefix(64)"), q_len, k_len)
    q_start = k_len - q_len
    for both in (kept & other, kept | other, kept ^ other, other - kept, ~kept):
        assert runs_of(both) == normal_form(both.dense(), q_start, limits.MAX_SPANS)
    assert np.array_equal((kept & other).dense(), kept.dense() & other.dense())


@pytest.mark.parametrize("max_spans", [*TINY, limits.MAX_SPANS])
@given(pair=cases_on_one_grid())
def test_spans_combine_as_their_cells_do(max_spans: int, pair: list[Case]):
    """Closure: a sum of normal forms that is right but no longer normal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", max_spans)
        a, b = (bind(case.mask, *case.grid) for case in pair)
        x, y = a.dense(), b.dense()
        for got, want in (
            (a & b, x & y), (a | b, x | y), (a ^ b, x ^ y), (a - b, x & ~y), (~a, ~x),
        ):  # fmt: skip
            assert runs_of(got) == normal_form(want, pair[0].q_start, max_spans)


@pytest.mark.parametrize("max_spans", [*TINY, limits.MAX_SPANS])
@given(pair=cases_on_one_grid(leaves=2))
def test_spans_are_equal_only_for_equal_cells(max_spans: int, pair: list[Case]):
    """An equality that compares some of the arrays, or a form with two spellings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", max_spans)
        a, b = (bind(case.mask, *case.grid) for case in pair)
        assert (a == b) == np.array_equal(a.dense(), b.dense())
        assert a != b or hash(a) == hash(b)


SAME = [
    ("Causal() & Window(3)", "Window(3)"),
    ("Causal()", "Band(None, 0)"),
    ("Causal()", "BlockCausal(1)"),
    ("Window(4)", "Dilated(4, 1)"),
    ("Window(1)", "Chunks(1)"),
    ("Window(3)", "Dilated(2, 1) | Shift(Dilated(2, 1), k=-1)"),
    ("Everything()", "Strided(1)"),
    ("Everything()", "Strided(2) | Shift(Strided(2), q=1)"),
    ("Everything()", "Prefix(5) | ~Prefix(5)"),
    ("Nothing()", "Causal() & ~Causal()"),
    ("Causal() & Segments.from_lengths([5, 4, 8])",
     "Causal() & (Queries(range(5)) & Keys(range(5)) | Queries(range(5, 9)) & Keys(range(5, 9))"
     " | ~Queries(range(9)) & ~Prefix(9))"),
    ("Causal() & (Window(3) | Prefix(2))", "Window(3) | Prefix(2) & Causal()"),
    ("Tree([-1, 0, 1, 2, 3], start=12)", "Band(None, 0) | Prefix(12)"),
    ("Timeline([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],"
     " [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])", "Causal()"),
    ("Keys([range(2, 5), range(5, 7)])", "Prefix(7) - Prefix(2)"),
    ("RandomBlocks(3, 99, seed=5)", "BlockCausal(3)"),
    ("Segments([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5])", "Chunks(3)"),
]  # fmt: skip


@pytest.mark.parametrize("max_spans", [*TINY, limits.MAX_SPANS])
@pytest.mark.parametrize(("one", "other"), SAME, ids=[a for a, _ in SAME])
def test_two_expressions_of_one_set_bind_to_one_value(monkeypatch, max_spans, one, other):
    """Causal written in two ways, and a cache that holds it twice."""
    monkeypatch.setattr(limits, "MAX_SPANS", max_spans)
    for grid in ((17, 17, 0), (5, 17, 12), (13, 7, 4), (1, 17, 8), (4, 16, 13)):
        a, b = bind(parse(one), *grid), bind(parse(other), *grid)
        assert a == b
        assert hash(a) == hash(b)


def test_causal_window_and_packed_documents_are_few_runs():
    """A form that is right but one run for each row."""
    assert bind(Causal(), 1000, 1000).starts.tolist() == [0]
    assert bind(parse("Window(10)"), 1000, 1000).starts.tolist() == [0, 10]
    packed = bind(Causal() & Segments.from_lengths([7] * 100), 700, 700)
    assert packed.starts.tolist() == list(range(0, 700, 7))
    assert runs_of(bind(Causal(), 3, 5)) == [(2, [(0, 0, 1, 1)], False)]
    assert runs_of(bind(Causal(), 1, 5)) == [(4, [(0, 0, 5, 0)], False)]


@given(cases(sizes=EDGES, leaves=4))
def test_rows_are_the_grid_cut(case: Case):
    """Rows cut from the middle of a run whose slope then no longer shows."""
    spans, dense = bind(case.mask, *case.grid), evaluate(case.mask, case.q_pos, case.k_pos)
    q0, q1 = case.q_start, case.q_start + case.q_len
    third = (q1 - q0) // 3
    for lo, hi in ((q0, q1), (q0 + third, q1 - third), (q1 - 1, q1), (q0, q0 + 1), (q0, q0)):
        cut = spans.rows(lo, hi)
        assert (cut.q_start, cut.shape) == (lo, (hi - lo, case.k_len))
        assert runs_of(cut) == normal_form(dense[lo - q0 : hi - q0], lo, limits.MAX_SPANS)
    for lo, hi in ((q0 - 1, q1), (q0, q1 + 1), (q1, q0)):
        if (lo, hi) != (q1, q0) or q0 != q1:
            with pytest.raises(MaskError, match="rows"):
                spans.rows(lo, hi)


@pytest.mark.parametrize("max_spans", [*TINY, limits.MAX_SPANS])
@given(case=cases(sizes=EDGES[:9], leaves=3), keep=cases(sizes=EDGES[:9], leaves=2))
def test_compact_keeps_the_chosen_keys_in_order(max_spans: int, case: Case, keep: Case):
    """A cache that forgot keys: the slot of a key is no longer its position."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", max_spans)
        spans, dense = bind(case.mask, *case.grid), evaluate(case.mask, case.q_pos, case.k_pos)
        chosen = np.resize(bind(keep.mask, *keep.grid).dense()[0], case.k_len)
        flips = np.flatnonzero(np.diff(chosen.astype(int), prepend=0, append=0)).reshape(-1, 2)
        for ranges in (flips, [tuple(map(int, pair)) for pair in flips]):
            kept = spans.compact(ranges)
            assert kept.shape == (case.q_len, int(chosen.sum()))
            assert runs_of(kept) == normal_form(dense[:, chosen], case.q_start, max_spans)


@given(cases(batch=3, heads=2, leaves=4))
def test_batch_binds_each_row_and_head(case: Case):
    """Rows shared by index although they differ, or stored again although they do not."""
    whole = evaluate(case.mask, case.q_pos, case.k_pos)
    bound, batch = bind(case.mask, *case.grid), bind_batch(case.mask, *case.grid)
    assert isinstance(bound, Batch) == (whole.ndim == 4)
    if whole.ndim == 2:
        assert batch.index.tolist() == [[0]]
        assert batch.spans == (bound,)
        return
    assert batch.index.dtype == np.int64
    assert batch.index.shape == whole.shape[:2]
    assert bound.spans == batch.spans
    for b, h in np.ndindex(whole.shape[:2]):
        assert np.array_equal(batch[b, h].dense(), whole[b, h])
        assert batch[b, h] == bind(select(case.mask, b, h), *case.grid)


def test_equal_rows_of_a_batch_share_their_spans():
    """A batch of 64 equal rows that costs 64 binds."""
    ids = np.zeros((64, 10), int)
    ids[7] = np.arange(10)
    assert len(bind(Causal() & Segments(ids), 10, 10).spans) == 2
    heads = PerHead([Causal(), parse("Window(2)"), Causal(), Causal()])
    assert bind(heads, 4, 4).index.tolist() == [[0, 1, 0, 0]]


def test_spans_and_their_arrays_cannot_be_changed():
    """A shared value edited by one of its users."""
    spans = bind(Causal() & Segments.from_lengths([3, 4]), 7, 7)
    with pytest.raises(AttributeError):
        spans.k_len = 9
    for field in fields(spans):
        value = getattr(spans, field.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[:1] = 0


def test_spans_of_different_grids_do_not_combine():
    """Broadcasting one decode row over a whole grid."""
    for other in (bind(Causal(), 3, 4), bind(Causal(), 4, 5, q_start=0), bind(Causal(), 4, 4, 1)):
        assert bind(Causal(), 4, 4) != other
        with pytest.raises(MaskError, match="grid"):
            bind(Causal(), 4, 4) & other


@pytest.mark.parametrize("grid", [(0, 0, 0), (0, 5, 3), (3, 0, 0), (3, 0, 7)])
def test_empty_grids_are_grids(grid):
    """A length of zero that raises in numpy."""
    for text in ("Causal()", "Nothing()", "~Window(2)", "Chunks(3)", "Strided(2)", "Dilated(2, 2)",
                 "RandomBlocks(2, 1)", "Queries(range(3))", "BlockCausal(2)"):  # fmt: skip
        spans = bind(parse(text), *grid)
        assert spans.dense().shape == grid[:2]
        assert not (~spans).dense().any()
        assert spans == spans & spans == ~~spans
