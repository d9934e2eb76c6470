"""The 300 shared vectors, made by an independent plain-loop meaning."""

import json
from pathlib import Path

import numpy as np
import pytest

from hitherto.mask import bind, empty_rows, evaluate, is_causal, pairs, parse

HERE = Path(__file__).parent / "data" / "masks.jsonl"
SHARED = Path(__file__).parents[3] / "shared" / "conformance" / "masks.jsonl"
VECTORS = [json.loads(line) for line in HERE.read_text().splitlines()]


def rows(cells: np.ndarray) -> list[str]:
    return ["".join(".#"[int(cell)] for cell in row) for row in cells]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared folder is not beside this checkout")
def test_vectors_are_the_shared_ones():
    """A copy that was edited, or has gone stale."""
    assert HERE.read_text() == SHARED.read_text()


def test_all_vectors_are_read():
    """A truncated file."""
    assert len(VECTORS) == 300


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{i}" for i in range(len(VECTORS))])
def test_vector_holds(vector):
    """Another reading of a rule than the rest of the project has."""
    mask = parse(vector["mask"])
    grid = vector["q_len"], vector["k_len"], vector["q_start"]
    q_pos = np.arange(grid[2], grid[2] + grid[0])
    assert rows(evaluate(mask, q_pos, np.arange(grid[1]))) == vector["rows"]

    spans = bind(mask, *grid)
    assert rows(spans.dense()) == vector["rows"]
    assert pairs(spans) == vector["pairs"]
    assert empty_rows(spans).tolist() == vector["empty_rows"]
    answer = is_causal(spans)
    future = vector["first_future"]
    assert answer.value is (future is None)
    assert answer.witness == (None if future is None else tuple(future))
