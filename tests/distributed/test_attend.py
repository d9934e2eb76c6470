"""Attention over ranks equals attention in one process: outputs and every gradient."""

import pytest

from attention.cases import MASKS
from distributed import equality
from distributed.ranks import on_ranks

SOME = ("nothing", "images", "padded", "per_head", "global", "tree")


@pytest.mark.parametrize(
    ("ranks", "names"),
    [
        (2, MASKS),
        pytest.param(3, MASKS, marks=pytest.mark.slow),
        pytest.param(8, SOME, marks=pytest.mark.slow),
        pytest.param(4, MASKS, marks=pytest.mark.slow),
        pytest.param(8, MASKS, marks=pytest.mark.slow),
    ],
    ids=["2", "3", "8-some", "4", "8"],
)
def test_attend_over_ranks_equals_one_process(ranks, names, tmp_path):
    """A key sent to the wrong rank, a gradient lost on its way back, an empty rank."""
    found = on_ranks(equality.every_mask, ranks, tmp_path, list(names))
    for name in names:
        worst = max(errors[name] for errors in found)
        assert worst <= 1, f"{name} on {ranks} ranks: {worst} of what rounding explains"


def test_ranks_that_disagree_and_calls_that_do_not_fit_are_refused_everywhere(tmp_path):
    """One rank that raises while another waits for its keys."""
    on_ranks(together, 2, tmp_path, ["refuses", "spoilt"])


def together(rank, ranks, names):
    for name in names:
        getattr(equality, name)(rank, ranks)


def test_float32_over_ranks_is_as_exact_as_one_process(tmp_path):
    """Partial results rounded before they are merged. The native kernels run here, where built."""
    for found in on_ranks(equality.in_float32, 2, tmp_path, 700):
        assert max(found.values()) <= 1.5
