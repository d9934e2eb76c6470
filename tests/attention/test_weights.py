"""Weights of chosen rows and heads equal the reference's, which an identity of values shows."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attention.cases import BIASES, KEYS, MASKS, QUERIES
from hitherto.attention import attend, attention_weights
from hitherto.mask import Causal, Nothing, Prefix, Window

ROWS, HEADS = [0, 5, QUERIES - 1, 64], [3, 0]


def drawn(heads=4, kv_heads=2, dtype=torch.float32):
    torch.manual_seed(0)
    q = torch.randn(2, heads, QUERIES, 16, dtype=dtype)
    return q, torch.randn(2, kv_heads, KEYS, 16, dtype=dtype)


def shown(q, k, mask, **options):
    """The weights by the reference: what it makes of values that are rows of an identity."""
    eye = torch.eye(KEYS, dtype=q.dtype).expand(*k.shape[:2], KEYS, KEYS)
    return attend(q, k, eye, mask, backend="reference", **options)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_weights_equal_the_reference(mask):
    """Catches a row or head taken from another place, and a mask asked at wrong positions."""
    q, k = drawn()
    found = attention_weights(q, k, mask, rows=ROWS, heads=HEADS)
    assert_close(found, shown(q, k, mask)[:, HEADS][:, :, ROWS], atol=1e-6, rtol=0)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("sinks", [False, True])
def test_weights_have_the_bias_the_cap_and_the_sinks(bias, softcap, sinks):
    q, k = drawn()
    mask = Causal() & (Window(20) | Prefix(2))
    options = {
        "bias": BIASES[bias](4, QUERIES, KEYS),
        "softcap": softcap,
        "sinks": torch.randn(4) if sinks else None,
        "scale": 0.3,
    }
    found = attention_weights(q, k, mask, rows=ROWS, heads=HEADS, **options)
    assert_close(found, shown(q, k, mask, **options)[:, HEADS][:, :, ROWS], atol=1e-6, rtol=0)


def test_weights_of_a_cache_that_forgot_keys():
    """Catches a mask asked at slots instead of positions."""
    q, k = drawn()
    k_pos = np.sort(np.random.default_rng(0).choice(500, KEYS, replace=False))
    mask = Causal() & Window(90)
    found = attention_weights(q[:, :, :3], k, mask, k_pos=k_pos)
    assert_close(found, shown(q[:, :, :3], k, mask, k_pos=k_pos), atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["auto", "tiled", "reference"])
def test_weights_make_what_attend_makes(backend):
    q, k = drawn()
    v = torch.randn(2, 2, KEYS, 8)
    mask = MASKS["sinks"]
    out = attend(q, k, v, mask, backend=backend)
    weights = attention_weights(q, k, mask)
    assert_close(weights @ v.repeat_interleave(2, 1), out, atol=1e-5, rtol=1e-5)


def test_weights_of_empty_rows_are_zero_and_hidden_numbers_do_not_matter():
    q, k = drawn()
    assert not attention_weights(q, k, Nothing(), rows=[3]).any()
    k[:, :, -1] = float("nan")
    found = attention_weights(q, k, Causal(), rows=[0, QUERIES - 1])
    assert torch.isfinite(found[:, :, 0]).all()
    assert torch.isnan(found[:, :, 1, 0]).all()


def test_weights_in_float64_are_float64():
    q, k = drawn(dtype=torch.float64)
    found = attention_weights(q, k, Causal(), rows=[9])
    assert_close(found, shown(q, k, Causal())[:, :, [9]], atol=1e-14, rtol=0)


def test_weights_take_no_queries_by_keys_array():
    """Catches the whole square: 64k x 64k scores of one head are 16 GiB."""
    q = torch.randn(1, 2, 1 << 16, 4)
    found = attention_weights(q, q, Causal() & Window(50), rows=[-1], heads=[1])
    assert found.shape == (1, 1, 1, 1 << 16)
    assert found[..., -50:].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("asked", "match"),
    [({"rows": [QUERIES]}, "rows must lie in 0..136"), ({"heads": [-5]}, "heads must lie in 0..3")],
)
def test_weights_explain_rows_and_heads_that_are_none(asked, match):
    with pytest.raises(ValueError, match=match):
        attention_weights(*drawn(), Causal(), **asked)
