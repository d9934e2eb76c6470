"""Hugging Face's own mask functions and a small model of theirs, given what we lower to."""

import numpy as np
import pytest
import torch

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import (
    Causal,
    Chunks,
    Everything,
    PerHead,
    Prefix,
    Segments,
    Window,
)
from lowering.usual import cases, cells, one_head
from strategies import Case

transformers = pytest.importorskip("transformers", reason="install hitherto[transformers]")
from transformers import LlamaConfig, LlamaModel, masking_utils  # noqa: E402

CASES = [*cases(200, batch=2), *cases(60, batch=2, heads=3)]
BASES = {
    "causal": (Causal(), masking_utils.causal_mask_function),
    "window": (Causal() & Window(3), masking_utils.sliding_window_causal_mask_function(3)),
    "everything": (Everything(), masking_utils.bidirectional_mask_function),
}


@pytest.mark.parametrize("base", BASES)
def test_two_dimensional_masks_mean_the_mask(base):
    """Padding that hides a key the model shows, or a causal mask that is the model's already."""
    own, function = BASES[base]
    said = 0
    for case in CASES:
        try:
            given = lower(case.mask, "transformers", *case.grid, form="2d", base=own)
        except Unsupported:
            continue
        want = cells(case)
        padding = given.get("attention_mask")
        got = masking_utils.sdpa_mask(
            len(want), case.q_len, case.k_len, case.q_start, 0, function, padding,
            allow_is_causal_skip=False,
        )  # fmt: skip
        assert np.array_equal(np.broadcast_to(got.numpy(), want.shape), want), case
        said += 1
    assert said > 10


@pytest.mark.parametrize("base", ["causal", "window"])
def test_position_ids_mean_the_mask(base):
    """Documents that see each other, or a window that begins again where it should not."""
    own, _ = BASES[base]
    make = {
        "causal": masking_utils.create_causal_mask,
        "window": masking_utils.create_sliding_window_causal_mask,
    }[base]
    config = LlamaConfig(hidden_size=8, num_attention_heads=1)
    config._attn_implementation, config.sliding_window = "sdpa", 3
    rng, said = np.random.default_rng(0), 0
    packed = [
        Case(own & Segments(np.cumsum(rng.random((1 + n % 3, n + 1)) < 0.3, 1)), n + 1, n + 1, 0)
        for n in range(30)
    ]
    for case in [*packed, *CASES]:
        try:
            given = lower(case.mask, "transformers", *case.grid, form="position_ids", base=own)
        except Unsupported:
            assert case not in packed
            continue
        want, ids = cells(case), given["position_ids"]
        embeds = torch.zeros(len(ids), case.q_len, 8)
        got = make(config, embeds, None, None, position_ids=ids, allow_is_causal_skip=False)
        assert np.array_equal(np.broadcast_to(got.numpy(), want.shape), want), case
        said += 1
    assert said >= 30


def test_mask_functions_mean_the_mask():
    """Positions from the first query where transformers counts from the first key."""
    said = 0
    for case in CASES:
        if not one_head(case):
            with pytest.raises(Unsupported, match="head 0 only"):
                lower(case.mask, "transformers", *case.grid, form="mask_function")
            continue
        function = lower(case.mask, "transformers", *case.grid, form="mask_function")
        want = cells(case)
        for vmap in (False, True):
            got = masking_utils.sdpa_mask(
                len(want), case.q_len, case.k_len, case.q_start, 0, function,
                allow_is_causal_skip=False, use_vmap=vmap,
            )  # fmt: skip
            assert np.array_equal(got.numpy(), want), case
        said += 1
    assert said > 150


@pytest.fixture(scope="module", params=["sdpa", "eager"])
def model(request):
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=8, attn_implementation=request.param,
    )  # fmt: skip
    return LlamaModel(config).eval()


@pytest.mark.parametrize(
    ("mask", "form"),
    [
        (Causal(), "nothing"),
        (Causal() & Segments.from_lengths([3, 4]), "position_ids"),
        (Causal() | Prefix(3), "4d"),
        (Causal() & (Window(3) | Prefix(1)), "4d"),
        (Everything(), "4d"),
        (PerHead([Causal(), Causal() & Window(2)]), "4d"),
    ],
    ids=str,
)
def test_a_model_sees_what_the_mask_shows(model, mask, form):
    """A bool mask added to the scores of eager; a form that the model drops."""
    name = model.config._attn_implementation
    given = lower(mask, "transformers", 7, 7, attn_implementation=name)
    shape = getattr(given.get("attention_mask"), "ndim", None)
    assert form == (
        "position_ids" if "position_ids" in given else "4d" if shape == 4 else "nothing"
    )
    want = lower(mask, "dense", 7, 7)
    want = want if want.ndim == 2 else want[0].any(0)
    x = torch.randn(1, 7, 16)
    with torch.no_grad():
        base = model(inputs_embeds=x, **given)[0]
        for key in range(7):
            moved = x.clone()
            moved[:, key] += 1
            changed = (model(inputs_embeds=moved, **given)[0] != base).any(-1)[0].numpy()
            assert np.array_equal(changed, want[:, key] | (np.arange(7) == key)), key


def test_eager_refuses_rows_that_see_nothing():
    """The mean of every value, forbidden ones too."""
    mask = Causal() & Segments([-1, 0, 0])
    with pytest.raises(Unsupported, match="mean"):
        lower(mask, "transformers", 3, 3, attn_implementation="eager")
    assert set(lower(mask, "transformers", 3, 3)) == {"attention_mask"}
    options = {"form": "4d", "attn_implementation": "eager", "empty": "mean"}
    said = lower(mask, "transformers", 3, 3, **options, dtype=torch.float16)
    bias = said["attention_mask"]
    assert bias.dtype == torch.float16
    assert bias.min() == torch.finfo(torch.float16).min


def test_forms_refuse_what_the_model_would_not_do():
    """Chunks that begin again in every document; a window that 2-D padding cannot take away."""
    chunks = Causal() & Chunks(3)
    documents = Segments.from_lengths([4, 3])
    with pytest.raises(Unsupported, match="position_ids"):
        lower(chunks & documents, "transformers", 7, 7, form="position_ids", base=chunks)
    with pytest.raises(Unsupported, match="2d"):
        lower(Causal(), "transformers", 7, 7, form="2d", base=Causal() & Window(3))
