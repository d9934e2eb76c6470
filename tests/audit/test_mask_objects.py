"""Faults of masks as objects, where no model is run: a mask moved, cut, composed or converted.

The audit has no probe for them, since masks are values that can be compared: each test plants a
public kind of fault in an operation, and `equal`, `subset` or `difference` decides it, with the
first pair at which it shows.
"""

import numpy as np
import pytest

from hitherto.mask import (
    Causal,
    Chunks,
    Segments,
    Shift,
    Window,
    bind,
    difference,
    equal,
    subset,
)

LENGTH = 21


def bound(mask, q_len=LENGTH, k_len=LENGTH, q_start=None):
    return bind(mask, q_len, k_len, q_start)


@pytest.mark.parametrize(
    ("right", "wrong", "pair"),
    [
        (Window(5), Window(6), (5, 0)),  # a library that does not count the query
        (Causal() & Chunks(8), Causal() & Chunks(8, start=1), (1, 0)),  # edges one slot late
        (Causal(), Shift(Causal(), k=1), (0, 1)),  # moved the wrong way: sees one key ahead
        (Causal() & Window(5), Causal() | Window(5), (5, 0)),  # composed with the wrong sign
    ],
)  # fmt: skip
def test_mask_that_differs_is_decided_with_its_first_pair(right, wrong, pair):
    assert not equal(bound(right), bound(wrong))
    assert difference(bound(right), bound(wrong)) == pair


def test_slice_of_a_mask_is_that_of_its_grid():
    """A block mask cut for later queries kept the positions of the first ones."""
    mask, first = Causal() & Window(5), 13
    cut = bound(mask, LENGTH - first, LENGTH).dense()
    assert (cut == bound(mask).dense()[first:]).all()
    assert (cut != bound(mask, LENGTH - first, LENGTH, 0).dense()).any()


def test_cast_of_a_mask_that_merges_documents_is_no_subset():
    """Document numbers through a bool or an int8 come back as 0 and 1: two documents are one."""
    ids = np.repeat([0, 1, 2], 7)
    apart, cast = (Causal() & Segments(i) for i in (ids, ids.astype(bool).astype(np.int64)))
    assert subset(bound(apart), bound(cast))
    assert not subset(bound(cast), bound(apart))
    assert difference(bound(apart), bound(cast)) == (14, 7)
