"""torch's own attention, asked by one-hot values which keys it sees."""

import warnings

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import (
    Band,
    Causal,
    Everything,
    Keys,
    PerHead,
    Segments,
    Table,
    Window,
    evaluate,
)
from lowering.usual import cases, cells

CASES = cases(160, batch=2, heads=3)


def seen_by_sdpa(said: dict, shape: tuple[int, ...]) -> np.ndarray:
    """Which values reach the output when all scores are equal."""
    batch, heads, queries, keys = shape
    q, k = torch.zeros(batch, heads, queries, 4), torch.zeros(batch, heads, keys, 4)
    v = torch.eye(keys).expand(batch, heads, -1, -1).contiguous()
    out = scaled_dot_product_attention(q, k, v, **said)
    assert not out.isnan().any()
    return (out > 0).numpy()


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_sdpa_sees_what_the_mask_shows(case):
    """torch's top-left `is_causal` where queries continue a cache."""
    want = np.broadcast_to(cells(case), (2, 3, case.q_len, case.k_len))
    said = lower(case.mask, "sdpa", *case.grid)
    np.testing.assert_array_equal(seen_by_sdpa(said, want.shape), want)


@pytest.mark.parametrize(
    ("mask", "grid", "form"),
    [
        (Causal(), (5, 5), "is_causal"),
        (Causal(), (5, 9, 0), "is_causal"),
        (Causal(), (1, 9), "nothing"),
        (Causal(), (5, 9), (1, 1, 5, 9)),
        (Window(9), (5, 5), "is_causal"),
        (Band(3, 3), (4, 4), "nothing"),
        (Segments.padded([3, 5], side="right", width=5), (5, 5), (2, 1, 5, 5)),
        (Table([[True, False, True]] * 2), (2, 3, 0), (1, 1, 1, 3)),
    ],
)
def test_sdpa_takes_the_smallest_form(mask, grid, form):
    """A tensor where `is_causal` reaches the fast kernel; a row for every query of one padding."""
    said = lower(mask, "sdpa", *grid)
    if isinstance(form, tuple):
        assert tuple(said["attn_mask"].shape) == form
    else:
        assert said == {"attn_mask": None, "is_causal": form == "is_causal"}


class Ones(torch.nn.MultiheadAttention):
    """Equal scores; the values pass as they are."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, bias=False, batch_first=True)
        with torch.no_grad():
            self.in_proj_weight.zero_()
            self.in_proj_weight[2 * width :] = torch.eye(width)
            self.out_proj.weight.copy_(torch.eye(width))


@pytest.mark.parametrize("case", cases(120, batch=2), ids=range(120))
@pytest.mark.parametrize("weights", [False, True])
def test_mha_sees_what_the_mask_shows(case, weights):
    """MultiheadAttention's True hides: the opposite of the function it calls."""
    want = np.broadcast_to(cells(case), (2, 1, case.q_len, case.k_len))[:, 0]
    options = {"num_heads": 2, "need_weights": weights}
    if weights and not want.any(-1).all():
        with pytest.raises(Unsupported, match="NaN"):
            lower(case.mask, "mha", *case.grid, **options)
        return
    width = 2 * case.k_len  # each of 2 heads has a channel for every key
    model = Ones(width, heads=2)
    value = torch.eye(case.k_len).repeat(1, 2).expand(2, -1, -1)
    query = torch.zeros(2, case.q_len, width)
    out, _ = model(query, value, value, **lower(case.mask, "mha", *case.grid, **options))
    for head in out.detach().chunk(2, dim=-1):
        assert not head.isnan().any()
        np.testing.assert_array_equal((head > 0).numpy(), want)


def test_mha_of_heads_that_differ():
    """A head axis dropped."""
    mask = PerHead([Causal(), Window(2), Everything()])
    assert lower(mask, "mha", 3, 4, num_heads=3, batch=2)["attn_mask"].shape == (6, 3, 4)
    said = lower(mask, "mha", 3, 4, num_heads=3)
    assert said["attn_mask"].shape == (3, 3, 4)
    for head in range(3):
        want = evaluate(mask, np.arange(1, 4), np.arange(4))[0, head]
        assert ((~said["attn_mask"][head]).numpy() == want).all()


def test_mha_says_padding_apart_from_causal():
    """(batch * heads, queries, keys) bools where (queries, keys) and (batch, keys) are enough."""
    real = np.arange(5) < np.array([[2], [5]])
    said = lower(Causal() & Keys(real), "mha", 5, 5)
    assert said["attn_mask"].tolist() == (~np.tri(5, dtype=bool)).tolist()
    assert said["key_padding_mask"].tolist() == (~real).tolist()
    # Padding *queries* that see nothing are more than key padding can say.
    padded = Causal() & Segments.padded([2, 5], side="right", width=5)
    assert lower(padded, "mha", 5, 5, num_heads=2)["attn_mask"].shape == (4, 5, 5)


def test_mha_refuses_a_batch_it_has_no_shape_for():
    """A batch of masks cut to its first row."""
    rows = Table(np.random.default_rng(0).random((2, 1, 3, 4)) < 0.5)
    with pytest.raises(Unsupported, match="num_heads"):
        lower(rows, "mha", 3, 4, 0)


def test_transformer_encoder_sees_what_the_mask_shows():
    """`src_mask` and `src_key_padding_mask` have the same polarity as MultiheadAttention's."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    mask = Causal() & Window(3)
    said = lower(mask, "mha", 6, 6)
    x = torch.randn(1, 6, 8)
    with torch.no_grad():
        base = model(x, mask=said["attn_mask"])
        for key in range(6):
            moved = x.clone()
            moved[:, key] += 1
            changed = (model(moved, mask=said["attn_mask"]) != base).any(-1)[0].numpy()
            want = np.array([key <= q < key + 3 for q in range(6)])
            np.testing.assert_array_equal(changed, want)


def test_transformer_encoder_gives_nan_on_its_fast_path():
    """Why `need_weights=True`, which refuses empty rows, is what an encoder needs."""
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    mask = Causal() & Segments([0, -1, 0])
    with torch.no_grad():
        out = model(torch.randn(1, 3, 8), src_mask=lower(mask, "mha", 3, 3)["attn_mask"])
    assert out.isnan().any(-1).tolist() == [[False, True, False]]
    with pytest.raises(Unsupported, match="query 1, key 0"):
        lower(mask, "mha", 3, 3, need_weights=True)


@pytest.mark.parametrize("grid", [(3, 3, 0), (2, 4, 2), (2, 4, 0), (2, 4, 1), (4, 2, 0), (1, 3, 2)])
def test_attention_bias_is_exact_or_refused_for_every_band(grid):
    """A lower-right bias for an upper-left mask, or a refusal of what torch has."""
    q_len, k_len, _ = grid
    bias = torch.nn.attention.bias
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = [f(q_len, k_len) for f in (bias.causal_upper_left, bias.causal_lower_right)]
    has = {b._materialize().numpy().tobytes() for b in whole if b._materialize().any(-1).all()}
    for before in (None, *range(-4, 5)):
        for after in (None, *range(-4, 5)):
            if None not in (before, after) and before + after < 0:
                continue
            mask = Band(before, after)
            want = lower(mask, "dense", *grid)
            if want.tobytes() in has:
                got = lower(mask, "attention_bias", *grid)
                assert got._materialize().numpy().tobytes() == want.tobytes()
            else:
                with pytest.raises(Unsupported):
                    lower(mask, "attention_bias", *grid)
