"""What the decoder shows to whom, and what it is made of."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from hitherto.errors import ModelError
from hitherto.mask import evaluate
from hitherto.model import Decoder, DecoderConfig, gemma3, gpt2, llama, tiny
from hitherto.model.layers import angles, rotate
from model import plain
from model.families import FAMILIES, MASKS, VOCAB, drawn, tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_decoder_equals_one_written_plainly_token_by_token(family):
    """Would catch a norm in the wrong place, heads grouped wrongly, a scale applied twice."""
    config = replace(FAMILIES[family], rotary_scales=(1.0, 4.0))
    model, ids = drawn(config), tokens(1, 9)
    expected = plain.logits(model.state_dict(), ids[0].tolist(), config)
    # The angles are float32.
    assert_close(model(ids)[0].detach(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", [*FAMILIES, "tiny"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_decoder_logits_do_not_change_with_later_tokens(family, dtype):
    """The same shapes run both times, so earlier logits must be the same bits."""
    model = (Decoder(tiny()) if family == "tiny" else drawn(FAMILIES[family])).to(dtype)
    ids = tokens(2, 23)
    other = tokens(2, 23, seed=1)
    for cut in (1, 4, 11, 22):
        changed = torch.cat([ids[:, :cut], other[:, cut:]], dim=1)
        before, after = model(ids)[:, :cut], model(changed)[:, :cut]
        assert torch.equal(before, after)
        assert not torch.equal(model(ids), model(changed))


@pytest.mark.parametrize("mask", MASKS)
def test_decoder_of_one_layer_uses_exactly_the_cells_its_mask_shows(mask):
    """Would catch a model that masks by itself, or a mask that is not passed on."""
    model = drawn(FAMILIES["llama"], num_layers=1, layer_masks=(mask,))
    ids, n = tokens(1, 12), 12
    used = torch.eye(n, dtype=torch.bool)
    for k in range(n):
        changed = ids.clone()
        changed[0, k] = (ids[0, k] + 1) % VOCAB
        used[:, k] |= (model(changed) != model(ids)).any(dim=-1)[0]
    shown = evaluate(model.masks[0], range(n), range(n)) | np.eye(n, dtype=bool)
    assert np.array_equal(used.numpy(), shown)


def test_decoder_batch_rows_do_not_meet():
    model, ids = drawn(FAMILIES["gemma3"]), tokens(3, 9)
    together = model(ids)
    for row in range(3):
        assert_close(model(ids[row : row + 1])[0], together[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_ragged_batch_equals_each_sequence_alone(family):
    """Would catch sequences of one row that see one another, or positions that run on."""
    model = drawn(FAMILIES[family])
    sequences = [tokens(1, n, seed=n)[0] for n in (5, 1, 11)]
    for logits, ids in zip(model.ragged(sequences), sequences, strict=True):
        assert_close(logits, model(ids[None])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_ragged_steps_equal_each_sequence_alone(family):
    """Sequences at different positions, each with its own cache, advance together."""
    model = drawn(FAMILIES[family])
    sequences = [tokens(1, n, seed=n)[0] for n in (9, 6, 13)]
    caches = [model.cache() for _ in sequences]
    for ids, cache in zip(sequences, caches, strict=True):
        model(ids[None, :-3], cache=cache)
    last = model.ragged([ids[-3:] for ids in sequences], caches)
    for logits, ids in zip(last, sequences, strict=True):
        assert_close(logits, model(ids[None])[0, -3:], rtol=0, atol=1e-11)


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_documents_equal_each_document_alone(family):
    """Would catch attention or positions that cross a document's edge."""
    model = drawn(FAMILIES[family])
    documents = [tokens(1, n, seed=n) for n in (7, 1, 9)]
    packed = torch.cat([*documents, torch.zeros(1, 3, dtype=torch.int64)], dim=1)
    ids = torch.tensor([[4] * 7 + [2] + [3] * 9 + [-1] * 3])
    logits = model(packed, documents=ids)
    edges = (0, 7, 8, 17)
    for document, start, stop in zip(documents, edges, edges[1:], strict=False):
        assert_close(logits[:, start:stop], model(document), rtol=0, atol=1e-11)
    assert logits.isfinite().all()


def test_packed_documents_refuse_masks_that_count_from_the_row():
    """A sink is the first token of the row; a later document would lose it silently."""
    model = drawn(FAMILIES["llama"], layer_masks=("Causal() & (Window(4) | Prefix(2))",))
    with pytest.raises(ModelError, match="masks of distances alone"):
        model(tokens(1, 4), documents=torch.zeros(1, 4, dtype=torch.int64))
    model = drawn(FAMILIES["llama"])
    with pytest.raises(ModelError, match="cannot be cached"):
        model(tokens(1, 4), documents=torch.zeros(1, 4, dtype=torch.int64), cache=model.cache())


@pytest.mark.parametrize(
    ("config", "parameters"),
    [(gpt2(), 124_439_808), (llama(), 8_030_261_248), (gemma3(), 999_885_952)],
)
def test_presets_have_the_published_parameter_counts(config, parameters):
    """Would catch a missing bias, an untied head, a norm too many."""
    with torch.device("meta"):
        assert Decoder(config).num_parameters == parameters


def test_decoder_weights_depend_on_the_seed_alone():
    state = torch.get_rng_state()
    first = Decoder(tiny(), seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    second, other = Decoder(tiny(), seed=3).state_dict(), Decoder(tiny(), seed=4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_rotation_makes_scores_depend_on_the_distance_alone():
    """Would catch a rotation of half the pairs, or by the wrong sign on one side."""
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64, generator=torch.manual_seed(0))

    def score(q_pos: int, k_pos: int) -> float:
        turned = [
            rotate(x, angles(torch.tensor([p]), 8, 100.0)) for x, p in ((q, q_pos), (k, k_pos))
        ]
        return (turned[0] * turned[1]).sum().item()

    assert score(9, 4) == pytest.approx(score(105, 100), abs=1e-4)
    assert score(9, 4) != pytest.approx(score(4, 9), abs=1e-2)
    assert score(0, 0) == pytest.approx((q * k).sum().item())


def test_rotation_by_hand():
    """Pair (0, 2) of a head of 4 turns by the position, pair (1, 3) by position / sqrt(base)."""
    x = torch.tensor([1.0, 1.0, 0.0, 0.0]).view(1, 1, 1, 4)
    turned = rotate(x, angles(torch.tensor([2]), 4, 100.0)).flatten()
    expected = torch.tensor([2.0, 0.2]).cos().tolist() + torch.tensor([2.0, 0.2]).sin().tolist()
    assert_close(turned, torch.tensor(expected))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "width must be a multiple of num_heads=5"),
        ({"num_kv_heads": 3}, "must be a multiple of num_kv_heads=3"),
        ({"layer_masks": ("Causal(",)}, "layer_masks"),
        ({"layer_masks": ()}, "at least one layer's"),
        ({"positions": "learned"}, "must be given for learned positions"),
        ({"positions": "sideways"}, "DecoderConfig.positions must be"),
        ({"width": "64"}, "DecoderConfig.width must be int"),
        ({"num_layers": 0}, "must be > 0"),
        ({"num_layers": True}, "DecoderConfig.num_layers must be int"),
        ({"head_dim": 7}, "must be even"),
        ({"norm_eps": float("nan")}, "DecoderConfig.norm_eps must be float"),
    ],
)
def test_config_says_which_setting_is_wrong(changes, message):
    good = {"vocab_size": 40, "width": 24, "num_layers": 2, "num_heads": 4}
    with pytest.raises(ModelError, match=message):
        DecoderConfig(**good | changes)
