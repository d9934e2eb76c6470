"""A mask that is almost a pattern is reported as that pattern, and the cells that differ."""

import numpy as np
import pytest

from hitherto.lowering import recognise
from hitherto.lowering.recognise.differences import differences_of
from hitherto.lowering.recognise.reading.dense import dense
from hitherto.mask import evaluate, parse

ALMOST = [
    ("Causal()", 40, (5, 9)),
    ("Causal()", 40, (30, 9)),
    ("Window(8)", 40, (31, 2)),
    ("Causal() & Segments.from_lengths([5, 9, 3, 20, 13])", 50, (40, 3)),
    ("Causal() & Segments.from_lengths([5, 9, 3, 20, 13])", 50, (12, 6)),
    ("Causal() & Chunks(10)", 40, (33, 12)),
    ("BlockCausal(8)", 40, (3, 30)),
]


@pytest.mark.parametrize(("text", "length", "cell"), ALMOST)
def test_one_flipped_cell_is_named(text, length, cell):
    """The mask itself stays exact; the pattern is the one that was meant."""
    cells = evaluate(parse(text), np.arange(length), np.arange(length)).copy()
    cells[cell] ^= True
    found = recognise(cells)
    assert (evaluate(found.mask, np.arange(length), np.arange(length)) == cells).all()
    assert not found.exact
    assert found.pattern == parse(text)
    assert found.differences.count == 1
    assert found.differences.first == ((0, 0, *cell),)
    verb = "also sees" if cells[cell] else "does not see"
    assert f"query {cell[0]} {verb} key {cell[1]}" in found.sentence


def test_one_flipped_cell_beside_sinks_is_named():
    """A pattern of three parts: the flipped cell must not be swallowed by a fourth."""
    cells = evaluate(parse("Causal() & (Window(6) | Prefix(2))"), np.arange(40), np.arange(40))
    cells = cells.copy()
    cells[25, 10] = True
    found = recognise(cells)
    assert (25, 10) in {cell[2:] for cell in found.differences.first}
    assert found.differences.count <= 2
    assert "query 25 also sees key 10" in found.sentence


def test_rows_that_see_one_key_too_many_are_named():
    """A window that is one too wide from a row on, as after an off-by-one in a cache."""
    cells = evaluate(parse("Window(30)"), np.arange(400), np.arange(400)).copy()
    late = np.arange(380, 400)
    cells[late, late - 30] = True
    found = differences_of(dense(cells), parse("Window(30)"))
    assert (found.count, found.extra) == (20, 20)
    assert found.words == "rows 380..399 see one key too many"
    assert differences_of(dense(~cells), ~parse("Window(30)")).words == (
        "rows 380..399 see one key too few"
    )


def test_many_differences_are_counted_and_the_first_is_named():
    cells = np.tri(12, dtype=bool)
    cells[[3, 5, 9], [7, 8, 11]] = True
    cells[[4, 8], [0, 2]] = False
    found = differences_of(dense(cells), parse("Causal()"))
    assert (found.count, found.extra) == (5, 3)
    assert (
        "3 cells are visible besides and 2 are hidden, the first at query 3, key 7" in found.words
    )


def test_difference_in_one_head_is_named_with_its_head():
    cells = np.repeat(np.tri(30, dtype=bool)[None, None], 3, 1)
    cells[0, 1, 7, 20] = True
    found = recognise(cells)
    assert found.differences.first == ((0, 1, 7, 20),)
    assert "head 1" in found.sentence
