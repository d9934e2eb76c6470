"""Native kernels against float64: every mask, layout, bias and length around a block's edge."""

import numpy as np
import pytest
import torch
from hypothesis import given

from attention.cases import BIASES, KEYS, LAYOUTS, MASKS, QUERIES, tensors
from hitherto.attention import Alibi, Relative, native, reference
from hitherto.attention.terms import Inputs
from hitherto.mask import Causal, Everything, Prefix, Segments, Table, Window
from native.kernels import assert_agree, built, call, every_set
from strategies import Case, cases

pytestmark = built


@every_set
@pytest.mark.parametrize("layout", ["mha", "gqa"])
@pytest.mark.parametrize("name", MASKS)
def test_native_agrees_with_float64_under_every_mask(name, layout, kernels):
    """A span end off by one, or a unit of keys called full that is not."""
    q, k, v, _ = (x.float() for x in tensors(layout, QUERIES, KEYS))
    assert_agree(*call(q, k, v, MASKS[name]), kernels)


@every_set
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", BIASES)
def test_native_agrees_with_float64_under_every_bias(bias, layout, kernels):
    """A bias read at the wrong offset, in base 2 twice, or a cap whose slope is left out."""
    torch.manual_seed(0)
    q, k, v, _ = (x.float() for x in tensors(layout, QUERIES, KEYS))
    added = BIASES[bias](4, QUERIES, KEYS)
    inputs, terms = call(
        q, k, v, MASKS["sinks"], bias=added, softcap=3.0, scale=0.7, sinks=torch.randn(4)
    )
    if bias == "tensor":  # its gradient is not native's to give
        inputs = inputs._replace(bias=None)
        terms = call(q, k, v, MASKS["sinks"], softcap=3.0, scale=0.7)[1]
    assert_agree(inputs, terms, kernels)


EDGES = (1, 5, 6, 7, 47, 48, 49, 97, 191, 192, 193, 385)


@every_set
@pytest.mark.parametrize("keys", EDGES)
@pytest.mark.parametrize("queries", [1, 6, 7, 47, 48, 49, 97])
def test_native_agrees_with_float64_around_every_block_edge(queries, keys, kernels):
    """Rows and keys beyond the end of a block hold zeros that must not count."""
    random = torch.Generator().manual_seed(queries * 1000 + keys)
    q, k, v = (torch.randn(1, 2, n, 8, generator=random) for n in (queries, keys, keys))
    for mask in (Causal(), Everything(), Window(50)):
        assert_agree(*call(q, k, v, mask, q_start=max(keys - queries, 0)), kernels)


@every_set
@pytest.mark.parametrize("v_dim", [1, 8, 72])
@pytest.mark.parametrize("head_dim", [1, 3, 8, 32, 40, 72, 136, 256])
def test_native_agrees_with_float64_for_every_width(head_dim, v_dim, kernels):
    """A last panel that is narrower than a register tile."""
    random = torch.Generator().manual_seed(head_dim)
    q, k = (torch.randn(1, 1, 60, head_dim, generator=random) for _ in range(2))
    v = torch.randn(1, 1, 60, v_dim, generator=random)
    assert_agree(*call(q, k, v, Causal()), kernels)


@every_set
@given(case=cases(sizes=(1, 3, 31, 64, 65, 129, 200), leaves=5, batch=2, heads=2))
def test_native_agrees_with_float64_under_any_mask(kernels: str, case: Case):
    """Masks nobody thought of."""
    random = torch.Generator().manual_seed(0)
    q = torch.randn(2, 2, case.q_len, 8, generator=random)
    k, v = (torch.randn(2, 1, case.k_len, 8, generator=random) for _ in range(2))
    assert_agree(*call(q, k, v, case.mask, q_start=case.q_start), kernels)


@every_set
def test_rows_of_bits_in_far_apart_words_agree_with_float64(kernels):
    """A word of 64 keys read at another block's start."""
    torch.manual_seed(0)
    cells = np.random.default_rng(1).random((300, 700)) < 0.3
    q, k, v = (torch.randn(1, 1, n, 8) for n in (300, 700, 700))
    assert_agree(*call(q, k, v, Table(cells), q_start=0), kernels)


@every_set
def test_bias_of_a_cache_that_forgot_keys_is_at_their_positions(kernels):
    """Slots taken for positions: right until the first key is forgotten."""
    torch.manual_seed(0)
    kept = np.r_[0:4, 300:520]
    q, k, v = (torch.randn(1, 4, n, 16) for n in (3, kept.size, kept.size))
    for bias in (Alibi.geometric(4), Relative(torch.randn(4, 81))):
        mask = Causal() & (Window(200) | Prefix(4))
        assert_agree(*call(q, k, v, mask, bias=bias, k_pos=kept), kernels)


@every_set
def test_heads_of_a_group_with_masks_of_their_own_agree(kernels):
    """With few queries the heads of a group share a block of rows, unless their masks differ."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 3, 16), torch.randn(2, 2, 400, 16), torch.randn(2, 2, 400, 16)
    for name in ("per_head", "per_group"):
        mask = MASKS[name] if name == "per_head" else MASKS[name].left  # type: ignore[union-attr]
        assert_agree(*call(q, k, v, mask), kernels)
    assert_agree(*call(q, k, v, Causal() & Segments.padded([400, 220])), kernels)


@every_set
def test_table_that_is_a_transposed_view_gets_its_gradient_in_place(kernels):
    """T5's buckets are a transposed view: written row after row, the gradient would be shuffled."""
    torch.manual_seed(0)
    q, k, v, _ = (x.float() for x in tensors("gqa", QUERIES, KEYS))
    weight = torch.randn(32, 4)
    bias = Relative.bucketed(weight, bidirectional=False)
    assert not bias.table.is_contiguous()
    inputs, terms = call(q, k, v, Causal(), bias=bias)
    out, lse, _ = native.forward(inputs, terms, kernels)
    grad = torch.randn_like(out)
    ours = native.backward(inputs, terms, (out, lse), (grad, None), True, kernels)[3]
    table = inputs.bias.double().requires_grad_()
    exact = reference.run(Inputs(q.double(), k.double(), v.double(), table, None), terms)[0]
    truth = torch.autograd.grad(exact, table, grad.double())[0]
    torch.testing.assert_close(ours.double(), truth, rtol=1e-4, atol=1e-5)
