"""Biases against their definitions, one number at a time."""

import math

import pytest
import torch

from hitherto.attention import Alibi, Relative, attend
from hitherto.mask import Causal, Everything, Window

BACKENDS = ("reference", "sdpa", "tiled")


def _scores(bias, queries: int, keys: int, heads: int, **options) -> torch.Tensor:
    """Return log-weights of zero scores: the bias itself, up to a constant a row."""
    q = torch.zeros(1, heads, queries, keys, dtype=torch.float64)
    eye = torch.eye(keys, dtype=torch.float64).expand(1, heads, -1, -1)
    return attend(q, eye * 0, eye, Everything(), bias=bias, **options).log()[0]


def test_alibi_slopes_are_the_papers():
    """Powers of 2^(-8/n); for other head counts the odd steps of the next power follow."""
    assert Alibi.geometric(8).slopes.tolist() == [2.0**-i for i in range(1, 9)]
    twelve = [2.0**-i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(4)]
    assert Alibi.geometric(12).slopes.tolist() == pytest.approx(twelve)
    assert Alibi.geometric(1).slopes.tolist() == [2.0**-8]


@pytest.mark.parametrize("backend", BACKENDS)
def test_alibi_falls_with_distance(backend):
    """Queries are at the end of the keys: a bias by slots would be wrong by keys - queries."""
    scores = _scores(Alibi(torch.tensor([0.5, 0.25])), 3, 7, 2, backend=backend)
    for h, slope in enumerate((0.5, 0.25)):
        for q in range(3):
            for k in range(7):
                expected = -slope * abs(k - (q + 4))
                assert (scores[h, q, k] - scores[h, q, q + 4]).item() == pytest.approx(expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_relative_reads_its_table_by_offset_and_clamps_at_its_ends(backend):
    """Column 0 is the offset `first`; beyond the table its ends hold."""
    table = torch.tensor([[1.0, 5.0, 2.0, 7.0]])
    scores = _scores(Relative(table, first=-2), 3, 9, 2, backend=backend)
    for q in range(3):
        for k in range(9):
            column = min(max(k - (q + 6) + 2, 0), 3)
            found = (scores[1, q, k] - scores[1, q, q + 6]).item()
            assert found == pytest.approx((table[0, column] - table[0, 2]).item())


def _t5_bucket(offset: int, bidirectional: bool, buckets: int, farthest: int) -> int:
    """T5's rule, from the paper's code, for one offset."""
    start, distance = 0, -offset
    if bidirectional:
        buckets //= 2
        start = buckets if distance < 0 else 0
        distance = abs(distance)
    else:
        distance = max(distance, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    grown = math.log(distance / exact) / math.log(farthest / exact) * (buckets - exact)
    return start + min(exact + int(grown + 1e-6), buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (6, 50)])
def test_buckets_are_t5s(bidirectional, buckets, farthest):
    """Buckets decide what a trained table means; one off by one ruins a loaded model."""
    weight = torch.arange(float(buckets))[:, None].repeat(1, 2)
    bias = Relative.bucketed(weight, bidirectional=bidirectional, max_distance=farthest)
    assert bias.first == -farthest
    for column, found in enumerate(bias.table[1].tolist()):
        offset = column - farthest
        assert found == _t5_bucket(offset, bidirectional, buckets, farthest), offset


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_reaches_the_bucket_weights(backend):
    """The table is a view of the weights: training T5's bias means training those."""
    torch.manual_seed(0)
    weight = torch.randn(8, 2, requires_grad=True)
    q, k, v = (torch.randn(2, 2, 40, 4) for _ in range(3))
    grads = []
    for name in ("reference", backend):
        bias = Relative.bucketed(weight, bidirectional=False, max_distance=20)
        out = attend(q, k, v, Causal() & Window(30), bias=bias, backend=name)
        grads += torch.autograd.grad(out.square().sum(), weight)
    assert grads[0].abs().min() > 0
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(30,), (1, 30), (20, 1), (20, 30), (4, 20, 30), (2, 1, 20, 30),
                                   (4, 1, 1), (2, 4, 1, 30)], ids=str)  # fmt: skip
def test_tensor_bias_broadcasts_and_takes_its_gradient(shape):
    """The gradient must come back in the bias's own shape, summed where it was spread."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 8, dtype=torch.float64) for n in (20, 30, 30))
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    found = []
    for backend in ("reference", "tiled"):
        out = attend(q, k, v, Causal() & Window(9), bias=bias, backend=backend)
        found.append(torch.autograd.grad(out.square().sum(), bias)[0])
    assert found[1].shape == shape
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Alibi(torch.zeros(2, 2)), "Alibi.slopes must have shape"),
        (lambda: Relative(torch.zeros(4)), "Relative.table must have shape"),
        (lambda: Relative(torch.zeros(2, 0)), "Relative.table must have shape"),
        (lambda: Relative(torch.zeros(2, 4)), "Relative.first must be given"),
    ],
)
def test_bad_bias_is_refused(build, message):
    """A table of even length has no middle: guessing one would shift every distance by one."""
    with pytest.raises(ValueError, match=message):
        build()
