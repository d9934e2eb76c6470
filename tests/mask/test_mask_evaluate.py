"""`evaluate`, the executable meaning, against the plain-loop oracle."""

import numpy as np
import pytest
from hypothesis import given

from hitherto.mask import (
    Causal,
    Keys,
    PerHead,
    RandomBlocks,
    Segments,
    Shift,
    Table,
    Tree,
    Window,
    axes,
    evaluate,
    parse,
)
from oracle import drawn_blocks, grid
from strategies import Case, cases, seeded_case


def check_against_oracle(case: Case) -> None:
    answer = evaluate(case.mask, case.q_pos, case.k_pos)
    assert answer.dtype == bool
    batched = answer if answer.ndim == 4 else answer[None, None]
    for b, h in np.ndindex(batched.shape[:2]):
        assert batched[b, h].tolist() == grid(case.mask, case.q_pos, case.k_pos, b, h)


@given(cases())
def test_evaluate_equals_the_oracle(case: Case):
    """A vectorised rule that is not the rule."""
    check_against_oracle(case)


@given(cases(batch=3, heads=2, leaves=5))
def test_evaluate_equals_the_oracle_for_batches_and_heads(case: Case):
    """Batch row 1 read with the ids of row 0; head masks in the wrong order."""
    check_against_oracle(case)


@pytest.mark.slow
def test_evaluate_equals_the_oracle_on_many_seeds():
    """What sixty examples miss."""
    for seed in range(6_000):
        batch, heads = (2, 2) if seed % 5 == 0 else (1, 1)
        check_against_oracle(seeded_case(seed, batch=batch, heads=heads))


def test_positions_may_come_in_any_order():
    """A rule that assumes consecutive, sorted positions."""
    mask = parse("Causal() & (Window(3) | Segments([0, 0, 1, 1, 0, 2])) - Strided(2)")
    q_pos, k_pos = np.array([5, 0, 3, 3]), np.array([2, 5, 0, 0, 4])
    assert evaluate(mask, q_pos, k_pos).tolist() == grid(mask, q_pos, k_pos)
    whole = evaluate(mask, np.arange(6), np.arange(6))
    assert np.array_equal(evaluate(mask, q_pos, k_pos), whole[np.ix_(q_pos, k_pos)])


def test_negative_positions_have_a_meaning_for_rules_without_data():
    """Division that rounds towards zero, so that the chunk around 0 is twice as long."""
    positions = np.arange(-7, 8)
    for text in ("Chunks(3, start=1)", "BlockCausal(4)", "Dilated(3, 2)", "Strided(3)", "Prefix(2)",
                 "Band(-1, 3)", "Keys(range(-3, 2))", "RandomBlocks(2, 2, seed=1)"):  # fmt: skip
        mask = parse(text)
        assert evaluate(mask, positions, positions).tolist() == grid(mask, positions, positions)


def test_batch_and_head_axes_broadcast():
    """A batch of masks & a mask per head: every pair of them, not the diagonal."""
    batch, heads = Segments([[0, 0, 1], [0, 1, 1], [0, 0, 0]]), PerHead([Causal(), Window(1)])
    at = np.arange(3)
    both = evaluate(batch & heads, at, at)
    assert both.shape == (3, 2, 3, 3)
    assert axes(batch & heads) == (3, 2)
    want = evaluate(batch, at, at) & evaluate(heads, at, at)
    assert np.array_equal(both, want)
    assert evaluate(batch, at, at).shape == (3, 1, 3, 3)
    assert evaluate(heads, at, at).shape == (1, 2, 3, 3)
    assert evaluate(Causal(), at, at).shape == (3, 3)


def test_batch_of_one_broadcasts_against_a_batch():
    """Size-1 axes, which numpy users expect to stretch."""
    one, two = Segments([[0, 0, 1]]), Keys(np.array([[True, False, True], [True, True, False]]))
    at = np.arange(3)
    assert evaluate(one, at, at).shape == (1, 1, 3, 3)
    assert np.array_equal(
        evaluate(one & two, at, at), evaluate(one, at, at) & evaluate(two, at, at)
    )


def test_per_head_masks_keep_the_order_of_the_heads():
    """Heads of a group swapped, which no sum over heads would show."""
    masks = [Window(1), Window(2), Causal(), Shift(Causal(), q=1)]
    got = evaluate(PerHead(masks), np.arange(5), np.arange(5))
    for head, mask in enumerate(masks):
        assert np.array_equal(got[0, head], evaluate(mask, np.arange(5), np.arange(5)))


def test_table_takes_batch_and_head_axes():
    """(batch, queries, keys) read as (heads, queries, keys)."""
    array = np.random.default_rng(0).random((2, 3, 4, 5)) < 0.5
    q, k = np.arange(4), np.arange(5)
    assert np.array_equal(evaluate(Table(array), q, k), array)
    assert np.array_equal(evaluate(Table(array[:, 0]), q, k), array[:, :1])
    assert np.array_equal(evaluate(Table(array[0, 0]), q, k), array[0, 0])


def test_shifts_compose():
    """A shift applied in the wrong direction the second time."""
    mask = Causal() & Window(3)
    at = np.arange(9)
    twice = Shift(Shift(mask, q=1, k=2), q=2, k=-1)
    assert np.array_equal(evaluate(twice, at, at), evaluate(Shift(mask, q=3, k=1), at, at))
    moved = evaluate(Shift(mask, q=2, k=2), at, at)
    assert np.array_equal(moved[2:, 2:], evaluate(mask, at, at)[:-2, :-2])


@pytest.mark.parametrize("n", [1, 2, 3, 64, 200])
def test_deep_tree_is_its_chain_of_ancestors(n):
    """A tree walk that stops early, or takes one step for each node of the tree."""
    mask = Tree(np.arange(-1, n - 1), start=2)
    at = np.arange(n + 2)
    assert np.array_equal(evaluate(mask, at, at), np.tri(n + 2, dtype=bool) | (at < 2))


@pytest.mark.parametrize(("block", "count", "seed"), [(1, 0, 0), (1, 1, 5), (3, 2, 9), (2, 40, 1)])
def test_random_blocks_draws_as_documented(block, count, seed):
    """A draw that depends on the length of the sequence, or on what was drawn before."""
    mask = RandomBlocks(block, count, seed)
    long = evaluate(mask, np.arange(40), np.arange(40))
    short = evaluate(mask, np.arange(31, 35), np.arange(25))
    assert np.array_equal(short, long[31:35, :25])
    for q in range(40):
        drawn = {int(k) // block for k in np.flatnonzero(long[q])}
        assert drawn == drawn_blocks(q // block, count, seed)
        assert len(drawn) == min(count, q // block + 1)


def test_random_blocks_with_a_huge_count_is_causal_by_blocks():
    """An array of `count` draws for a handful of blocks."""
    mask = RandomBlocks(2, 10**9)
    at = np.arange(6)
    assert np.array_equal(evaluate(mask, at, at), evaluate(parse("BlockCausal(2)"), at, at))


def test_padded_segments_stand_on_the_side_that_was_asked():
    """Left and right padding swapped."""
    right, left = (Segments.padded([1, 3], side=side) for side in ("right", "left"))
    assert right.ids.tolist() == [[0, -1, -1], [0, 0, 0]]
    assert left.ids.tolist() == [[-1, -1, 0], [0, 0, 0]]
    assert Segments.padded([1], width=3).ids.tolist() == [[0, -1, -1]]
    pads = evaluate(left, np.arange(3), np.arange(3))[0, 0]
    assert pads.sum() == 1
    assert pads[2, 2]


def test_segments_from_lengths_skips_empty_documents():
    """An empty document that swallows its neighbour."""
    assert Segments.from_lengths([2, 0, 1]).ids.tolist() == [0, 0, 2]
