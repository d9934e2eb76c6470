"""Every question against a look at every cell."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

import hitherto.mask.spans as limits
from hitherto.mask import (
    Batch,
    Blocks,
    Causal,
    Everything,
    MaskError,
    Nothing,
    PerHead,
    Prefix,
    Segments,
    Window,
    bind,
    blocks,
    column,
    density,
    difference,
    empty_rows,
    equal,
    evaluate,
    is_causal,
    pairs,
    parse,
    row,
    subset,
    work,
)
from oracle import first_difference, first_future, ranges, tiles
from strategies import EDGES, SMALL, Case, cases, cases_on_one_grid, seeded_case

LIMITS = (1, 2, limits.MAX_SPANS)


def listed(found: np.ndarray) -> list[tuple[int, int]]:
    assert found.dtype == np.int64
    assert found.shape == (len(found), 2)
    return [tuple(pair) for pair in found.tolist()]


def blocks_by_tile(found: Blocks) -> list[list[tuple[int, bool]]]:
    """Spell the runs out: for each query block, (key block, full) of every tile touched."""
    spelled = []
    for i in range(found.offsets.size - 1):
        entries = range(found.offsets[i], found.offsets[i + 1])
        runs = [(int(found.start[e]), int(found.stop[e]), bool(found.full[e])) for e in entries]
        assert all(start < stop for start, stop, _ in runs)
        for (_, stop, full), (start, _, next_full) in pairwise(runs):
            assert stop < start or (stop == start and full != next_full), "runs must be maximal"
        spelled.append([(j, full) for start, stop, full in runs for j in range(start, stop)])
    return spelled


def check_counts(case: Case) -> None:
    spans, dense = bind(case.mask, *case.grid), evaluate(case.mask, case.q_pos, case.k_pos)
    assert pairs(spans) == pairs(case.mask, *case.grid) == int(dense.sum())
    assert type(pairs(spans)) is int
    assert density(spans) == pytest.approx(dense.mean(), rel=1e-12)
    empty = empty_rows(spans)
    assert empty.dtype == np.int64
    assert empty.tolist() == case.q_pos[~dense.any(1)].tolist()
    middle = case.q_start + case.q_len // 2
    assert work(spans, case.q_start, middle) == int(dense[: case.q_len // 2].sum())
    assert work(spans, middle, case.q_start + case.q_len) == int(dense[case.q_len // 2 :].sum())
    for i, q in enumerate(case.q_pos.tolist()):
        assert work(spans, q, q + 1) == int(dense[i].sum())


def check_rows_and_columns(case: Case) -> None:
    spans, dense = bind(case.mask, *case.grid), evaluate(case.mask, case.q_pos, case.k_pos)
    for i, q in enumerate(case.q_pos.tolist()):
        assert listed(row(spans, q)) == ranges(dense[i])
    for k in range(case.k_len):
        want = [(case.q_start + a, case.q_start + b) for a, b in ranges(dense[:, k])]
        assert listed(column(spans, k)) == want


def check_blocks(case: Case, bq: int, bk: int) -> None:
    spans, dense = bind(case.mask, *case.grid), evaluate(case.mask, case.q_pos, case.k_pos)
    found = blocks(spans, bq, bk)
    want = tiles(dense, bq, bk)
    assert blocks_by_tile(found) == want
    full = sum(is_full for line in want for _, is_full in line)
    assert found.counts() == (full, sum(map(len, want)) - full)


def check_causal(case: Case) -> None:
    spans, dense = bind(case.mask, *case.grid), evaluate(case.mask, case.q_pos, case.k_pos)
    future = first_future(dense, case.q_start)
    for answer in (is_causal(spans), is_causal(case.mask, *case.grid)):
        assert answer.value is (future is None)
        assert answer.witness == future
        assert bool(answer) is answer.value


@pytest.mark.parametrize("limit", LIMITS)
@given(case=cases())
def test_counts_equal_a_count_of_the_cells(limit: int, case: Case):
    """A sum over a run that is off by a row; a bit row counted as spans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", limit)
        check_counts(case)


@pytest.mark.parametrize("limit", LIMITS)
@given(case=cases())
def test_rows_and_columns_equal_a_look_along_the_cells(limit: int, case: Case):
    """A column read through a run whose ends move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", limit)
        check_rows_and_columns(case)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("bq", "bk"), [(1, 1), (2, 3), (4, 4), (3, 16), (7, 2), (64, 1), (99, 99)])
@given(case=cases(leaves=5))
def test_blocks_equal_a_look_at_every_tile(limit: int, bq: int, bk: int, case: Case):
    """A tile called full because its corners are visible; the last, narrower tile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", limit)
        check_blocks(case, bq, bk)


@given(case=cases(sizes=EDGES, leaves=4))
def test_questions_hold_at_the_edges_of_words_and_blocks(case: Case):
    """Lengths 63, 64, 65, 127, 128, 129."""
    check_counts(case)
    for bq, bk in ((64, 64), (32, 64), (128, 63), (16, 128)):
        check_blocks(case, bq, bk)


@pytest.mark.parametrize("limit", LIMITS)
@given(case=cases())
def test_is_causal_on_a_grid_finds_the_first_future_cell(limit: int, case: Case):
    """A claim of causality that is a tag, not a fact; a witness that is not the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", limit)
        check_causal(case)


@pytest.mark.parametrize("limit", LIMITS)
@given(pair=cases_on_one_grid(leaves=2))
def test_comparisons_find_the_first_pair_in_row_major_order(limit: int, pair: list[Case]):
    """A counterexample that is none, or a later one than need be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_SPANS", limit)
        a, b = (case.mask for case in pair)
        q_start, grid = pair[0].q_start, pair[0].grid
        x, y = bind(a, *grid).dense(), bind(b, *grid).dense()
        want = first_difference(x, y, q_start)
        assert difference(a, b, *grid) == want
        assert difference(bind(a, *grid), bind(b, *grid)) == want
        same = equal(a, b, *grid)
        assert (same.value, same.witness) == (want is None, want)
        extra = first_difference(x, x & y, q_start)
        inside = subset(a, b, *grid)
        assert (inside.value, inside.witness) == (extra is None, extra)
        assert subset(a & b, b, *grid)
        assert equal(a, a, *grid)


@pytest.mark.slow
def test_questions_hold_for_twenty_thousand_expressions():
    """What sixty examples miss."""
    for seed in range(20_000):
        case = seeded_case(
            seed + 50_000, leaves=1 + seed % 8, sizes=EDGES if seed % 20 == 0 else SMALL
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "MAX_SPANS", LIMITS[seed % 3])
            check_counts(case)
            check_causal(case)
            check_blocks(case, 1 + seed % 9, 1 + seed % 7)
            if seed % 4 == 0:
                check_rows_and_columns(case)


@given(case=cases(batch=3, heads=2, leaves=4))
def test_questions_answer_for_each_row_and_head_of_a_batch(case: Case):
    """The answer of batch row 0 for all; the axes transposed."""
    whole = evaluate(case.mask, case.q_pos, case.k_pos)
    bound = bind(case.mask, *case.grid)
    if not isinstance(bound, Batch):
        return check_counts(case)
    counts, shares, rows = pairs(bound), density(bound), empty_rows(bound)
    done, lines = work(bound, case.q_start, case.q_start + 1), blocks(bound, 3, 2)
    assert counts.shape == shares.shape == rows.shape == lines.shape == whole.shape[:2]
    first, below = row(bound, case.q_start), column(bound, 0)
    for at in np.ndindex(whole.shape[:2]):
        assert counts[at] == whole[at].sum()
        assert shares[at] == pytest.approx(whole[at].mean(), rel=1e-12)
        assert rows[at].tolist() == case.q_pos[~whole[at].any(1)].tolist()
        assert done[at] == whole[at][0].sum()
        assert blocks_by_tile(lines[at]) == tiles(whole[at], 3, 2)
        assert listed(first[at]) == ranges(whole[at][0])
        assert listed(below[at]) == [
            (case.q_start + a, case.q_start + b) for a, b in ranges(whole[at][:, 0])
        ]
    futures = [first_future(whole[at], case.q_start) for at in np.ndindex(whole.shape[:2])]
    worst = min((cell for cell in futures if cell is not None), default=None)
    assert (is_causal(bound).value, is_causal(bound).witness) == (worst is None, worst)


def test_comparisons_broadcast_the_batch():
    """One mask against a batch: every row must agree; the first row in order is the witness."""
    batch = Causal() & Segments([[0, 0, 0, 0], [0, 0, 1, 1]])
    assert equal(batch, Causal(), 4, 4).witness == (2, 0)
    assert subset(batch, Causal(), 4, 4)
    assert not equal(PerHead([Window(2), Causal()]), Window(2), 4, 4)
    assert difference(PerHead([Window(2), Causal()]), Window(2), 4, 4) == (2, 0)
    heads = PerHead([Everything(), Window(1)])
    assert difference(batch & heads, heads & batch, 4, 4) is None
    with pytest.raises(MaskError):
        equal(batch, Segments([[0] * 4] * 3), 4, 4)


def test_questions_on_empty_grids_have_answers():
    """A division by no cells, a minimum of nothing."""
    for grid in ((0, 0, 0), (0, 5, 2), (3, 0, 4)):
        spans = bind(parse("Causal() & Window(2)"), *grid)
        assert pairs(spans) == 0
        assert density(spans) == 0
        assert empty_rows(spans).tolist() == list(range(grid[2], grid[2] + grid[0]))
        assert is_causal(spans)
        assert equal(spans, bind(Nothing(), *grid))
        found = blocks(spans, 2, 2)
        assert blocks_by_tile(found) == [[]] * -(-grid[0] // 2)
        assert found.counts() == (0, 0)


def test_questions_take_masks_and_lengths_with_the_default_alignment():
    """Queries at the front in one question and at the end in another."""
    mask = Causal() & Window(3)
    assert pairs(mask, 2, 6) == 6
    assert pairs(mask, 6) == pairs(bind(mask, 6, 6)) == 15
    assert density(mask, 2, 6) == 0.5
    assert empty_rows(~Causal(), 2, 6).tolist() == [5]
    assert is_causal(Prefix(6), 2, 6).witness == (4, 5)
    assert difference(Causal(), Everything(), 2, 6) == (4, 5)


def test_answer_that_is_unknown_has_no_truth_value():
    """`if is_causal(mask):` taking unknown for no."""
    answer = is_causal(parse("RandomBlocks(4, 1)") | parse("RandomBlocks(4, 1, seed=1)"))
    if answer.value is None:
        with pytest.raises(MaskError):
            bool(answer)


BAD_QUESTIONS = [
    (lambda s: blocks(s, 0, 4), "bq"),
    (lambda s: blocks(s, 4, -1), "bk"),
    (lambda s: blocks(s, 4, 2.5), "bk"),
    (lambda s: blocks(s, True, 2), "bq"),
    (lambda s: row(s, 4), "q"),
    (lambda s: row(s, -1), "q"),
    (lambda s: column(s, 5), "k"),
    (lambda s: column(s, -1), "k"),
    (lambda s: pairs(s, 4, 5), "q_len"),
    (lambda s: pairs(Causal()), "q_len"),
    (lambda s: equal(s, Causal()), "q_len"),
    (lambda s: equal(s, bind(Causal(), 4, 6)), "Spans|grid"),
    (lambda s: pairs(3, 4), "mask"),
    (lambda s: row(Causal(), 0), "mask|grid|Spans"),
    (lambda s: column(Causal(), 0), "mask|grid|Spans"),
    (lambda s: work(Causal(), 0, 1), "mask|grid|Spans"),
    (lambda s: blocks(Causal(), 2, 2), "mask|grid|Spans"),
]


@pytest.mark.parametrize(("ask", "argument"), BAD_QUESTIONS, ids=range(len(BAD_QUESTIONS)))
def test_question_refuses_what_it_cannot_answer(ask, argument):
    """An IndexError, or the answer for another row (negative index)."""
    with pytest.raises(MaskError, match=argument):
        ask(bind(Causal(), 4, 5, q_start=0))


def test_questions_take_numpy_ints():
    """Positions that come out of an array."""
    spans = bind(Causal(), np.int64(4), np.int64(5), q_start=np.int64(0))
    assert pairs(spans) == 10
    assert blocks(spans, np.int64(2), np.int64(2)).counts() == (1, 2)
    assert listed(row(spans, np.int64(3))) == [(0, 4)]
