"""What is hidden has no effect: not on outputs, not on gradients, not even as NaN."""

import pytest
import torch

from attention.cases import KEYS, MASKS, QUERIES, dense, tensors
from hitherto.attention import attend
from hitherto.mask import Causal, Keys, Nothing, PerHead, Segments, Window

BACKENDS = ("reference", "sdpa", "tiled")
BAD = (float("nan"), float("inf"), float("-inf"))


def _run(q, k, v, mask, backend, grad, **options):
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out = attend(*leaves, mask, backend=backend, **options)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["prefix_lm", "window", "padded", "table", "per_head", "sinks"])
def test_number_hidden_from_every_row_changes_nothing(name, backend, bad):
    """0 * NaN is NaN in weights @ values and in each product of the backward pass."""
    mask = MASKS[name] & ~Keys([range(70, 75), range(160, 170)])
    q, k, v, grad = (x.float() for x in tensors("gqa", QUERIES, KEYS))
    clean = _run(q, k, v, mask, backend, grad)
    k[:, :, 70:75], v[:, :, 160:170] = bad, bad
    v[:, :, 73] = bad
    poisoned = _run(q, k, v, mask, backend, grad)
    assert torch.equal(poisoned[0], clean[0])
    for one, other in zip(poisoned[1:], clean[1:], strict=True):
        # k and v themselves differ in the hidden places, where gradients are 0 in both runs.
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["causal", "packed", "band", "table", "padded", "per_head"])
def test_number_hidden_from_some_rows_spoils_only_the_others(name, backend, which):
    """A tile that one row may see and another may not must not spread a NaN between them."""
    mask, at = MASKS[name], 99
    q, k, v, grad = (x.float() for x in tensors("mha", QUERIES, KEYS))
    seen = dense(mask, QUERIES, KEYS).expand(2, 4, -1, -1)
    if which == 0:
        spoilt = torch.zeros(2, 4, QUERIES, dtype=torch.bool)
        spoilt[:, :, at] = seen[:, :, at].any(-1)
    else:
        spoilt = seen[..., at]
    clean = _run(q, k, v, mask, backend, grad.masked_fill(spoilt[..., None], 0.0))
    (q, k, v)[which][:, :, at, 3] = float("nan")
    out, *grads = _run(q, k, v, mask, backend, grad)
    assert spoilt.any()
    assert out[spoilt].isnan().all()
    assert torch.equal(out[~spoilt].isfinite(), torch.ones_like(out[~spoilt], dtype=torch.bool))
    torch.testing.assert_close(out[~spoilt], clean[0][~spoilt], rtol=1e-5, atol=1e-6)
    for one, other in zip(grads, clean[1:], strict=True):
        torch.testing.assert_close(one.nan_to_num(nan=7e7), one)
        rest = torch.ones(one.shape[2], dtype=torch.bool)
        rest[at] = False
        torch.testing.assert_close(one[:, :, rest], other[:, :, rest], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"sinks": torch.ones(4)}], ids=str)
def test_empty_row_gives_zeros_and_no_gradient(backend, options):
    """The smallest float as mask value would give the mean of every value; -inf alone gives NaN."""
    if backend == "sdpa" and options:
        pytest.skip("sdpa has neither softcap nor sinks")
    mask = Causal() & Segments.padded([KEYS - 150, KEYS]) & ~Keys(range(70))
    q, k, v, grad = (x.float() for x in tensors("gqa", QUERIES, KEYS))
    empty = ~dense(mask, QUERIES, KEYS).any(-1).expand(2, 4, -1)
    assert empty.any()
    assert not empty.all()
    out, dq, dk, dv = _run(q, k, v, mask, backend, grad, **options)
    assert (out[empty] == 0).all()
    assert (dq[empty] == 0).all()
    assert all(x.isfinite().all() for x in (out, dq, dk, dv))
    without = _run(q, k, v, mask, backend, grad.masked_fill(empty[..., None], 0.0), **options)
    torch.testing.assert_close([dk, dv], without[2:])


@pytest.mark.parametrize("backend", ["reference", "tiled"])
@pytest.mark.parametrize("sinks", [None, torch.tensor([0.0, 1.0, -3.0, 9.0])], ids=["", "sinks"])
def test_lse_of_an_empty_row_is_minus_infinity(backend, sinks):
    """torch's kernel reports 0 there, which a merge would take for a key of score 0."""
    q, k, v, _ = (x.float() for x in tensors("mha", QUERIES, KEYS))
    for mask in (Nothing(), Causal() & Window(3) & ~Keys(range(150, 160))):
        empty = ~dense(mask, QUERIES, KEYS).any(-1).expand(2, 4, -1)
        _, lse = attend(q, k, v, mask, sinks=sinks, return_lse=True, backend=backend)
        assert torch.equal(lse == -torch.inf, empty)
        assert lse[~empty].isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_bias_of_minus_infinity_on_all_visible_keys_is_an_empty_row(backend):
    """Masks of other libraries arrive as additive -inf; they too must not give NaN."""
    q, k, v, grad = (x.float() for x in tensors("mha", 9, 9))
    bias = torch.zeros(9, 9)
    bias[4, :5] = -torch.inf
    out, dq, dk, dv = _run(q, k, v, Causal(), backend, grad, bias=bias)
    assert (out[:, :, 4] == 0).all()
    assert (dq[:, :, 4] == 0).all()
    assert all(x.isfinite().all() for x in (out, dk, dv))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_of_one_heads_keys_stays_in_that_head(backend):
    """Heads share tiles, and with per-head masks also gathers; a NaN must not change heads."""
    mask = PerHead((Causal(), Window(5), Causal(), Nothing()))
    q, k, v, _ = (x.float() for x in tensors("mha", QUERIES, KEYS))
    clean = attend(q, k, v, mask, backend=backend)
    k[:, 0, 150] = float("nan")
    v[:, 3] = float("nan")
    out = attend(q, k, v, mask, backend=backend)
    torch.testing.assert_close(out[:, 1:], clean[:, 1:])
    assert out[:, 0, 150 - (KEYS - QUERIES) :].isnan().all()
    torch.testing.assert_close(out[:, 0, : 150 - (KEYS - QUERIES)],
                               clean[:, 0, : 150 - (KEYS - QUERIES)])  # fmt: skip
