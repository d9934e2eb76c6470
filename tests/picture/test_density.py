"""Counts by cell against counting the dense grid."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hitherto.mask import Causal, Window, bind, evaluate, pairs
from hitherto.picture import density
from strategies import cases


def _brute(grid, q_edges, k_edges):
    return np.add.reduceat(np.add.reduceat(grid.astype(int), q_edges[:-1], 0), k_edges[:-1], 1)


def _edges(data, start, stop):
    inside = data.draw(st.sets(st.integers(start + 1, stop - 1))) if stop - start > 1 else set()
    return np.array(sorted({start, stop, *inside}))


@given(cases(leaves=4, sizes=(1, 2, 7, 31, 64, 97, 130)), st.data())
def test_counts_equal_counting_cells(case, data):
    """Catches a slope, a clip or a word's edge that is off by one, in spans and in bits."""
    q_edges = _edges(data, case.q_start, case.q_start + case.q_len)
    k_edges = _edges(data, 0, case.k_len)
    spans = bind(case.mask, *case.grid)
    grid = evaluate(case.mask, case.q_pos, case.k_pos)
    expected = _brute(grid, q_edges - case.q_start, k_edges)
    np.testing.assert_array_equal(density.counts(spans, q_edges, k_edges), expected)


def test_counts_of_a_million_rows_sum_to_pairs():
    """Catches overflow, and entries lost between the portions that bound memory."""
    spans = bind(Causal() & Window(5000), 1 << 20, 1 << 20)
    edges = np.arange(65) << 14
    counted = density.counts(spans, edges, edges)
    assert counted.sum() == pairs(spans)
    assert counted[3, 3] == sum(min(i + 1, 5000) for i in range(1 << 14))


def test_counts_in_small_portions_equal_counts_at_once(monkeypatch):
    """Catches a portion's edge that drops or doubles an entry."""
    rng = np.random.default_rng(0)
    spans = bind(Causal() & Window(7), 200, 300)
    edges = np.array([100, 150, 299, 300]), np.unique(rng.integers(1, 299, 9))
    at_once = density.counts(spans, *edges)
    monkeypatch.setattr(density, "_BUDGET", 1)
    np.testing.assert_array_equal(density.counts(spans, *edges), at_once)
