"""What may be passed: strides, dtypes, pieces of a cache, numbers that are not finite, nothing."""

import pytest
import torch

from attention.cases import KEYS, MASKS, QUERIES, dense, tensors
from hitherto.attention import native, reference
from hitherto.attention.terms import Inputs
from hitherto.errors import Unsupported
from hitherto.mask import Causal, Nothing, Window
from native.kernels import INF, assert_agree, built, call, every_set

pytestmark = built


@every_set
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.mT.contiguous().mT,
        lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
        lambda x: x[:1].expand(2, -1, -1, -1),
    ],
    ids=["by position", "by column", "padded rows", "one for all"],
)
def test_strides_are_followed(view, kernels):
    """Addresses reckoned from the shape: right for contiguous tensors only."""
    q, k, v, _ = (view(x.float()) for x in tensors("gqa", QUERIES, KEYS))
    assert_agree(*call(q, k, v, MASKS["packed"]), kernels)


@every_set
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_exact_as_its_rounding(dtype, kernels):
    """Sums kept in the inputs' format, or truncated on the way out."""
    q, k, v, _ = (x.to(dtype) for x in tensors("gqa", QUERIES, KEYS))
    inputs, terms = call(q, k, v, Causal())
    out, lse, _ = native.forward(inputs, terms, kernels)
    exact, exact_lse = reference.run(Inputs(q.double(), k.double(), v.double(), None, None), terms)
    assert out.dtype == dtype
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-6, atol=1e-6)
    # Rounding to nearest is all that the result may lose, and a float32 sum's error.
    nearest = exact.to(dtype).double()
    assert (out.double() - exact).abs().le((nearest - exact).abs() + 1e-6).all()
    torch.manual_seed(0)
    grad = torch.randn_like(out)
    ours = native.backward(inputs, terms, (out, lse), (grad, None), False, kernels)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    truth = torch.autograd.grad(reference.run(Inputs(*leaves, None, None), terms)[0], leaves,
                                grad.double())  # fmt: skip
    for one, other in zip(ours[:3], truth, strict=True):
        # `out` is rounded before backward reads it: so one rounding more than the result's own.
        torch.testing.assert_close(one.double(), other, rtol=2 * torch.finfo(dtype).eps,
                                   atol=4 * torch.finfo(dtype).eps)  # fmt: skip


@every_set
def test_every_half_number_is_read_and_written_as_torch_does(kernels):
    """Subnormals, the largest numbers and ties of the portable conversions."""
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        x = bits.view(dtype)
        x = x[x.isfinite() & (x.float().abs() < 1e30)]
        v = x[: x.numel() // 8 * 8].view(1, 1, -1, 8)
        q = torch.zeros_like(v)
        inputs, terms = call(q, q, v, Window(1))
        assert torch.equal(native.forward(inputs, terms, kernels)[0], v)


@every_set
@pytest.mark.parametrize("sizes", [[700], [1, 699], [64] * 10 + [60], [191, 2, 507], [0, 700]])
@pytest.mark.parametrize("queries", [1, 4, 60])
def test_a_cache_in_pieces_equals_the_same_in_one(sizes, queries, kernels):
    """A page's first key read from the page before."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 8, queries, 16), torch.randn(2, 2, 700, 16), torch.randn(2, 2, 700, 16)
    inputs, terms = call(q, k, v, Causal())
    whole = native.forward(inputs, terms, kernels)
    pieces = [
        (a.clone(), b.clone()) for a, b in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True)
    ]
    parts = native.forward(inputs, terms, kernels, pieces=pieces)
    assert torch.equal(whole[0], parts[0])
    assert torch.equal(whole[1], parts[1])


@every_set
def test_gradients_from_an_lse_that_is_cut_out_of_another_are_the_same(kernels):
    """Rows of an lse read by address, as if they lay one after another."""
    inputs, terms = call(*(x.float() for x in tensors("gqa", QUERIES, KEYS)[:3]), Causal())
    out, lse, _ = native.forward(inputs, terms, kernels)
    cut = torch.cat([lse, lse], 2)[:, :, :QUERIES]
    assert not cut.is_contiguous()
    found = [
        native.backward(inputs, terms, (out, x), (torch.ones_like(out), None), False, kernels)
        for x in (lse, cut)
    ]
    for one, other in zip(*(grads[:3] for grads in found), strict=True):
        assert torch.equal(one, other)


@every_set
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("group", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [1, 7, 20, 72, 129])
def test_few_rows_are_read_in_place_at_any_width(width, group, dtype, kernels):
    """Numbers after the end of a row, or a group of rows that is not filled."""
    torch.manual_seed(0)
    q = torch.randn(1, 2 * group, 2, width).to(dtype)
    k, v = torch.randn(1, 2, 230, width).to(dtype), torch.randn(1, 2, 230, width + 2).to(dtype)
    for mask in (Causal(), Causal() & Window(50), MASKS["table"]):
        inputs, terms = call(q, k[:, :, -KEYS:], v[:, :, -KEYS:], mask)
        out, lse, finite = native.forward(inputs, terms, kernels)
        wide = (x.double() for x in inputs[:3])
        exact, exact_lse = reference.run(Inputs(*wide, None, None), terms)
        assert finite
        torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-6, atol=1e-5)
        nearest = exact.to(dtype).double()
        assert (out.double() - exact).abs().le((nearest - exact).abs() + 2e-6).all()


@every_set
@pytest.mark.parametrize("bad", [float("nan"), INF, -INF])
@pytest.mark.parametrize("which", [1, 2])
def test_few_rows_that_see_a_number_that_is_not_finite_say_so(which, bad, kernels):
    """In place, nothing but the results tells of such a number."""
    q, k, v, _ = (x.float() for x in tensors("gqa", QUERIES, KEYS))
    for at in (0, 100, KEYS - 1):
        x = [q[:, :, -1:], k.clone(), v.clone()]
        x[which][0, 1, at, 3] = bad
        assert not native.forward(*call(*x, Causal()), kernels)[2]
    assert native.forward(*call(q[:, :, -1:], k, v, Causal()), kernels)[2]


@every_set
@pytest.mark.parametrize("bad", [float("nan"), INF, -INF])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("name", ["causal", "packed", "table", "per_head"])
def test_number_that_is_not_finite_spoils_only_who_sees_it(name, which, bad, kernels):
    """0 * NaN is NaN, and a score of -inf would quietly be no weight."""
    x = [x.float() for x in tensors("mha", QUERIES, KEYS)[:3]]
    seen = dense(MASKS[name], QUERIES, KEYS).expand(2, 4, -1, -1)
    spoilt = seen[..., 99]
    if which == 0:
        spoilt = torch.zeros(2, 4, QUERIES, dtype=torch.bool)
        spoilt[:, :, 99] = seen[:, :, 99].any(-1)
    clean, _ = native.run(*call(*x, MASKS[name]), kernels)
    x[which][:, :, 99, 3] = bad
    out, lse = native.run(*call(*x, MASKS[name]), kernels)
    assert spoilt.any()
    assert out[spoilt].isnan().all()
    assert lse[spoilt].isnan().all()
    assert torch.equal(out[~spoilt], clean[~spoilt])


@every_set
@pytest.mark.parametrize("shape", [(0, 2, 5, 5), (1, 2, 0, 5), (1, 2, 5, 0)])
def test_nothing_gives_nothing(shape, kernels):
    """A block count of zero divided by."""
    batch, heads, queries, keys = shape
    q, k = torch.randn(batch, heads, queries, 8), torch.randn(batch, heads, keys, 8)
    inputs, terms = call(q, k, k, Nothing(), q_start=0)
    out, lse, _ = native.forward(inputs, terms, kernels)
    assert torch.equal(out, torch.zeros(batch, heads, queries, 8))
    assert (lse == -INF).all()
    grads = native.backward(inputs, terms, (out, lse), (out, None), False, kernels)
    assert all(
        torch.equal(g, torch.zeros_like(x)) for g, x in zip(grads[:3], inputs[:3], strict=True)
    )


def test_what_native_cannot_do_is_refused_before_it_runs():
    """A float64 tensor read as float32."""
    q = torch.randn(1, 1, 8, 8, dtype=torch.float64)
    with pytest.raises(Unsupported, match="float64"):
        native.run(*call(q, q, q, Causal()))
    x = q.float()
    bias = torch.randn(1, 1, 8, 8, requires_grad=True)
    with pytest.raises(Unsupported, match="gradient of a bias"):
        native.run(*call(x, x, x, Causal(), bias=bias))


@every_set
def test_tensor_bias_broadcasts_by_strides(kernels):
    """An axis of size 1 stepped along."""
    q, k, v, _ = (x.float() for x in tensors("gqa", QUERIES, KEYS))
    for shape in [(2, 4, QUERIES, KEYS), (1, 4, 1, KEYS), (2, 1, QUERIES, 1), (KEYS,)]:
        inputs, terms = call(q, k, v, Causal(), bias=torch.randn(shape))
        out, lse, _ = native.forward(inputs, terms, kernels)
        exact = reference.run(Inputs(*(None if x is None else x.double() for x in inputs)), terms)
        torch.testing.assert_close(out.double(), exact[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(lse.double(), exact[1], rtol=1e-5, atol=1e-6)
