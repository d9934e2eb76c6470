"""Plans: equal cells, nothing sent that is not seen, at any size."""

import time

import numpy as np
import pytest

from attention.cases import KEYS, MASKS, QUERIES
from distributed.masks import LARGE, MILLION, documents
from hitherto.distributed import plan
from hitherto.mask import Causal, MaskError, PerHead, Segments, Window, bind_batch, evaluate, pairs


def seen_by(mask, q_len, k_len):
    """Return the grid with batch rows and heads joined by `or`, and their summed cells a row."""
    grid = evaluate(mask, np.arange(k_len - q_len, k_len), np.arange(k_len))
    grid = grid.reshape(-1, q_len, k_len)
    return grid.any(0), grid.sum((0, 2))


def inside(ranges, length):
    """Return bools: is a position in one of the ranges?"""
    hit = np.zeros(length, int)
    for start, stop in ranges:
        hit[start:stop] += 1
    assert hit.max(initial=0) <= 1
    return hit.astype(bool)


@pytest.mark.parametrize("way", ["best", "cut", "folded", "dealt"])
@pytest.mark.parametrize("ranks", [3, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MASKS)
def test_plan_counts_what_the_grid_shows(name, ranks, way):
    """A rank with cells it does not have, a key that is needed and not sent, or sent in vain."""
    grid, cells = seen_by(MASKS[name], QUERIES, KEYS)
    made = plan(MASKS[name], QUERIES, KEYS, ranks, dealing=way)
    q_start, owned = KEYS - QUERIES, np.zeros(QUERIES, int)
    sent, held = np.zeros(ranks, int), np.zeros(KEYS, int)
    own = [inside(np.stack(made.dealing.keys[1:], 1)[made.dealing.keys[0] == r], KEYS)
           for r in range(ranks)]  # fmt: skip
    for rank in range(ranks):
        rows = inside(made.dealing.queries(rank) - q_start, QUERIES)
        owned += rows
        held += own[rank]
        needed = grid[rows].any(0)
        assert made.cells[rank] == cells[rows].sum()
        assert (inside(made.keys(rank), KEYS) == needed).all()
        assert made.received[rank] == (needed & ~own[rank]).sum()
        got = np.zeros(KEYS, bool)
        for transfer in made.transfers(rank):
            part = inside(transfer.ranges, KEYS)
            assert (own[transfer.source] >= part).all()
            got |= part
            if transfer.source != rank:
                sent[transfer.source] += transfer.keys
        assert (got == needed).all()
    assert (owned == 1).all()
    assert (held == 1).all()
    assert (made.sent == sent).all()
    assert made.dealing.tokens.sum() == QUERIES


def test_keys_of_queries_live_with_them():
    """Keys that a rank made itself and yet receives."""
    made = plan(Causal(), 50, 80, 4)
    group, lo, hi = made.dealing.keys
    for rank in range(4):
        own = inside(np.stack([lo, hi], 1)[group == rank], 80)
        rows = inside(made.dealing.queries(rank), 80)
        assert (own[30:] == rows[30:]).all()


@pytest.mark.parametrize("name", LARGE)
def test_plan_of_a_million_tokens_on_64_ranks_is_balanced(name):
    """Equal rows instead of equal cells: the slowest rank sets the pace."""
    made = plan(LARGE[name], MILLION, MILLION, 64)
    assert made.balance <= 1.02
    assert made.cells.sum() == pairs(LARGE[name], MILLION, MILLION)
    assert made.token_balance <= 1.5
    assert made.sent.sum() == made.received.sum()


def test_window_sends_less_than_a_fiftieth_of_a_ring():
    """Keys that no query sees, sent all the same."""
    made = plan(Causal() & Window(4096), MILLION, MILLION, 64)
    assert made.bytes < 0.02 * made.ring_bytes


def test_folded_is_zigzag_on_a_causal_mask():
    """Two stretches that do not add up."""
    ours, theirs = (
        plan(Causal(), 1 << 16, 1 << 16, 8, dealing=way) for way in ("folded", "zigzag")
    )
    assert ours.received.sum() == theirs.received.sum()
    assert ours.balance == pytest.approx(theirs.balance, abs=1e-3)


def test_layers_that_share_a_dealing_add_their_cells():
    """A dealing that is balanced for one layer of two."""
    masks = (Causal(), Causal() & Window(64))
    made = plan(masks, 4096, 4096, 8)
    assert made.cells.sum() == sum(pairs(mask, 4096, 4096) for mask in masks)
    heads = plan(PerHead(masks), 4096, 4096, 8)
    assert (heads.cells == made.cells).all()
    assert made.balance <= 1.02
    one = plan(masks[1], 4096, 4096, 8, dealing=made.dealing)
    assert one.received.sum() <= made.received.sum()
    assert one.cells.sum() == pairs(masks[1], 4096, 4096)


def test_batched_mask_counts_every_row():
    mask = Causal() & Segments(np.stack([np.repeat([0, 1], 64), np.zeros(128, int)]))
    made = plan(mask, 128, 128, 4)
    assert made.cells.sum() == sum(pairs(s) for s in bind_batch(mask, 128, 128).spans)


@pytest.mark.parametrize("mask", [Causal(), Window(4096), documents(1 << 24)],
                         ids=["causal", "window", "packed"])  # fmt: skip
def test_ten_thousand_ranks_are_planned_in_ten_seconds(mask):
    """A loop over ranks squared."""
    began = time.process_time()
    made = plan(mask, 1 << 24, 1 << 24, 10_000)
    assert made.bytes > 0
    assert time.process_time() - began < 10
    assert made.balance <= 1.05


def test_plan_of_nothing_and_of_nobody():
    """A division by no cells, or by no rows."""
    none = plan(Segments([-1] * 40), 40, 40, 4)
    assert none.balance == 1
    assert none.bytes == 0
    assert none.dealing.tokens.max() <= 11
    assert plan(Causal(), 0, 0, 3).cells.tolist() == [0, 0, 0]
    few = plan(Causal(), 2, 2, 5)
    assert few.dealing.tokens.sum() == 2


def test_plan_refuses_what_is_no_plan():
    with pytest.raises(MaskError, match="dealing"):
        plan(Causal(), 8, 8, 2, dealing="striped")
    with pytest.raises(MaskError, match="ranks"):
        plan(Causal(), 8, 8, 0)
    with pytest.raises(MaskError, match="q_len"):
        plan(Causal(), 9, 8, 2)
    with pytest.raises(MaskError, match="mask"):
        plan([], 8, 8, 2)
