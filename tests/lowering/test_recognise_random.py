"""Whatever is composed of our masks comes back equal, decided on every cell."""

import numpy as np
import pytest

from hitherto.lowering import recognise
from hitherto.lowering.recognise.size import size
from hitherto.mask import Table, bind_batch, difference, evaluate
from strategies import seeded_case

SOME = (1, 2, 3, 5, 7, 8, 11, 13)


def comes_back(seed: int, **options: object) -> tuple[int, int]:
    """Recognise a random mask, prove the answer, and return the two sizes."""
    case = seeded_case(seed, **options)
    cells = evaluate(case.mask, case.q_pos, case.k_pos)
    found = recognise(cells, q_start=case.q_start)
    wrong = difference(bind_batch(found.mask, *case.grid), bind_batch(case.mask, *case.grid))
    assert wrong is None, f"seed {seed}: {found.mask} for {case}"
    return size(found.mask), size(case.mask)


@pytest.mark.parametrize("seed", range(30))
def test_random_composition_comes_back_equal(seed):
    comes_back(seed, sizes=SOME, leaves=4, batch=1 + seed % 2, heads=1 + (seed % 5 == 0))


def test_random_pairs_come_back_no_longer():
    """Of two masks and an operator: most come back as short. Tables and xor may not."""
    sizes = [comes_back(seed, sizes=SOME, leaves=2) for seed in range(30)]
    assert sum(found <= said for found, said in sizes) >= 24


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000))
def test_a_thousand_random_compositions_come_back_equal(seed):
    comes_back(seed, leaves=8, batch=1 + (seed % 5 == 0), heads=1 + (seed % 7 == 0))


def test_a_large_ragged_mask_is_searched_in_its_corner():
    """Every third diagonal of 3,000: too many spans to list, and still found."""
    q = np.arange(3000, dtype=np.int32)
    assert str(recognise((q[:, None] - q) % 3 == 0).mask) == "Strided(3)"


def test_table_is_the_last_resort():
    cells = np.random.default_rng(1).random((11, 13)) < 0.4
    assert Table in {type(part) for part in (recognise(cells, q_start=0).mask,)}
