"""transformers models on our attention: what they compute stays what eager computes."""

import ast
import copy
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs the transformers extra")

from hitherto.errors import Unsupported  # noqa: E402
from hitherto.integrations import attention as plugin  # noqa: E402
from hitherto.integrations.carried import Carried  # noqa: E402
from hitherto.integrations.tiny import architectures, tiny  # noqa: E402
from hitherto.mask import Band, Causal, evaluate  # noqa: E402

SMALL = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
    "max_position_embeddings": 64, "attention_dropout": 0.0,
}  # fmt: skip
ONE_SLIDES = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, **ONE_SLIDES}),
    "gemma2": ("Gemma2", {"attn_logit_softcapping": 0.5, **ONE_SLIDES}),
    "gemma3": ("Gemma3", {**ONE_SLIDES}),
    "gpt_oss": ("GptOss", {**EXPERTS, **ONE_SLIDES}),
    "llama4": ("Llama4", {
        **EXPERTS, "intermediate_size_mlp": 48, "attention_chunk_size": 5, "moe_layers": [],
        "layer_types": ["chunked_attention", "full_attention"],
    }),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "attn_pdrop": 0.0,
                      "resid_pdrop": 0.0, "embd_pdrop": 0.0}),
}  # fmt: skip
TEXT = {"gemma3": "Gemma3TextConfig", "llama4": "Llama4TextConfig"}

plugin.register()


@pytest.fixture(params=DECODERS)
def pair(request) -> tuple[Any, Any]:
    """Return a tiny random decoder on our attention, and the same one on eager."""
    return twins(request.param)


def twins(name: str, **changes: Any) -> tuple[Any, Any]:
    """Build both from one seed."""
    family, more = DECODERS[name]
    kind = getattr(transformers, TEXT.get(name, f"{family}Config"))
    own = {"vocab_size": 97} if name == "gpt2" else SMALL
    model_class = getattr(
        transformers, "GPT2LMHeadModel" if name == "gpt2" else f"{family}ForCausalLM"
    )
    return both(model_class, lambda: kind(**{**own, **more, **changes}))


def both(model_class: Any, config: Any) -> tuple[Any, Any]:
    """Build a model on ours and on eager, with the same weights."""
    models = []
    for implementation in ("hitherto", "eager"):
        torch.manual_seed(0)
        models.append(model_class._from_config(config(), attn_implementation=implementation).eval())
    ours, eager = models
    with torch.no_grad():
        for weight in eager.parameters():
            # The library's own start is so small that no score would differ from another.
            weight.normal_(std=0.3)
    ours.load_state_dict(eager.state_dict())
    return ours, eager


def ids(batch: int = 2, length: int = 17) -> torch.Tensor:
    """Return tokens that are not padding."""
    return torch.from_numpy(np.random.default_rng(5).integers(3, 97, (batch, length)))


def check_same(ours: Any, eager: Any, real: Any = ..., **inputs: Any) -> None:
    """Compare logits at the real positions."""
    with torch.no_grad():
        a, b = ours(**inputs).logits, eager(**inputs).logits
    torch.testing.assert_close(a[real], b[real], rtol=1e-5, atol=1e-5)


def test_decoder_equals_eager(pair) -> None:
    """The whole promise, without pads."""
    check_same(*pair, input_ids=ids())


@pytest.mark.parametrize("side", ["left", "right"])
def test_decoder_equals_eager_when_padded(pair, side: str) -> None:
    """Pads must be hidden, and chunks must begin behind them."""
    real = torch.ones(2, 17, dtype=torch.long)
    real[1, slice(0, 6) if side == "left" else slice(11, None)] = 0
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    check_same(*pair, input_ids=ids() * real, attention_mask=real, position_ids=positions,
               real=real.bool())  # fmt: skip


def test_decoder_equals_eager_on_packed_documents(pair) -> None:
    """Documents that position ids alone divide must not see one another."""
    positions = torch.cat([torch.arange(n) for n in (7, 1, 9)])[None].expand(2, -1)
    check_same(*pair, input_ids=ids(), position_ids=positions, use_cache=False)
    if pair[0].config.model_type == "gpt_oss":
        return  # transformers 5.24 does not tell this model's mask about positions, on any kernel
    with torch.no_grad():
        alone = pair[0](input_ids=ids()[:, 8:], position_ids=positions[:, 8:]).logits
        packed = pair[0](input_ids=ids(), position_ids=positions, use_cache=False).logits
    torch.testing.assert_close(packed[:, 8:], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_decoder_generates_what_eager_does(pair, cache: str) -> None:
    """Caches grow, roll and hold empty slots: the same logits at every step, beyond the window."""
    real = torch.ones(2, 9, dtype=torch.long)
    real[1, :4] = 0
    a, b = (
        model.generate(
            ids(2, 9) * real, attention_mask=real, max_new_tokens=9, min_new_tokens=9,
            do_sample=False, cache_implementation=cache, output_logits=True,
            return_dict_in_generate=True, disable_compile=True,
        )
        for model in pair
    )  # fmt: skip
    assert torch.equal(a.sequences, b.sequences)
    for x, y in zip(a.logits, b.logits, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=2e-5)


def test_decoder_trains_as_eager_does(pair) -> None:
    """A backward pass through masks, caps and sinks must reach every weight alike."""
    for model in pair:
        model.train()
        model(input_ids=ids(), labels=ids(), use_cache=False).loss.backward()
    for (name, a), b in zip(pair[0].named_parameters(), pair[1].parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            scale = float(b.grad.abs().max()) + 1e-12
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5 * scale + 1e-8)


@pytest.mark.parametrize("name", ["mistral", "llama4"])
def test_a_dropped_window_would_be_seen(monkeypatch, name: str) -> None:
    """Control: were every mask read as causal, the comparison above would fail."""
    monkeypatch.setattr(plugin, "mask_of", lambda function, stop: Causal())
    with pytest.raises(AssertionError):
        check_same(*twins(name), input_ids=ids())


def test_a_dropped_sink_would_be_seen(monkeypatch) -> None:
    """Control: sinks change the output by far more than the tolerance."""
    ours, eager = twins("gpt_oss")
    whole = plugin.attend
    monkeypatch.setattr(plugin, "attend", lambda *x, sinks, **how: whole(*x, sinks=None, **how))
    with pytest.raises(AssertionError):
        check_same(ours, eager, input_ids=ids())


def test_encoder_equals_eager_with_and_without_pads() -> None:
    """No mask means everything in an encoder, and pads stay hidden."""
    small = {**SMALL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    pair = both(transformers.BertForMaskedLM, lambda: transformers.BertConfig(**small))
    check_same(*pair, input_ids=ids())
    real = torch.ones(2, 17, dtype=torch.long)
    real[1, 11:] = 0
    check_same(*pair, input_ids=ids(), attention_mask=real, real=real.bool())


def test_encoder_decoder_equals_eager_with_position_bias() -> None:
    """T5 adds a learned bias to the scores, and its cross-attention sees the source alone."""
    config = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2,
              "num_heads": 4, "dropout_rate": 0.0, "decoder_start_token_id": 0}  # fmt: skip
    pair = both(transformers.T5ForConditionalGeneration, lambda: transformers.T5Config(**config))
    real = torch.ones(2, 17, dtype=torch.long)
    real[1, 11:] = 0
    check_same(*pair, input_ids=ids(), attention_mask=real, decoder_input_ids=ids(2, 7))


def test_image_blocks_and_own_overlays_equal_eager() -> None:
    """Gemma 3's images see themselves in both directions; a model's own overlay is asked."""
    from transformers import masking_utils

    ours, eager = twins("gemma3")
    blocks = torch.tensor([[-1, -1, 0, 0, 0, 0, 0, 0, 0, -1, 1, 1, 1, -1, -1, -1, -1]] * 2)
    overlays = {
        "block_sequence_ids": blocks,
        "or_mask_function": lambda b, h, q, k: k < 4,
        "and_mask_function": lambda b, h, q, k: (q - k) % 3 != 1,
    }
    for name, overlay in overlays.items():
        logits = []
        for model in (ours, eager):
            build = {
                "full_attention": masking_utils.create_causal_mask,
                "sliding_attention": masking_utils.create_sliding_window_causal_mask,
            }
            hidden = torch.zeros(2, 17, 32)
            masks = {
                kind: function(config=model.config, inputs_embeds=hidden, attention_mask=None,
                               cache=None, **{name: overlay})
                for kind, function in build.items()
            }  # fmt: skip
            logits.append(model(input_ids=ids(), attention_mask=masks, use_cache=False).logits)
        torch.testing.assert_close(*logits, rtol=1e-5, atol=1e-5)
        assert (logits[0] - ours(ids()).logits).abs().max() > 1e-2, name


@pytest.mark.parametrize("kind", ["bool", "hidden", "bias"])
def test_a_given_4d_mask_equals_eager(kind: str) -> None:
    """A mask that the user wrote is used as it is: bool, or added to the scores."""
    ours, eager = twins("llama")
    shown = torch.ones(17, 17).tril().bool() & (torch.arange(17) % 4 != 2)
    given = torch.zeros(2, 1, 17, 17).masked_fill(~shown, torch.finfo(torch.float32).min)
    if kind == "bias":
        given = given + torch.randn(2, 1, 17, 17)
    mine = shown.expand(2, 1, 17, 17) if kind == "bool" else given
    with torch.no_grad():
        a = ours(ids(), attention_mask=mine).logits
        b = eager(ids(), attention_mask=given).logits
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_attention_weights_equal_eagers() -> None:
    """Whoever asks for the weights gets them, not None."""
    ours, eager = twins("mistral")
    a, b = (model(ids(), output_attentions=True).attentions for model in (ours, eager))
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


def carried(**changes: Any) -> Any:
    """Ask for a sliding mask of 6 queries."""
    from transformers.masking_utils import sliding_window_causal_mask_function

    return plugin.carried_mask(
        **{"batch_size": 2, "q_length": 6, "kv_length": 6, **changes},
        mask_function=sliding_window_causal_mask_function(3),
    )


def test_carried_mask_is_an_expression_with_true_cells() -> None:
    """A model that slices or inverts the mask on its way must see cells, never their lack."""
    mask = carried()
    assert mask.sight.mask == Band(2, None) & Causal()
    cells = torch.from_numpy(evaluate(mask.sight.mask, np.arange(6), np.arange(6)))
    lowest = torch.finfo(torch.float32).min
    for seen in (mask + 0.0, mask.clone(), mask[:, :, :, :4]):
        assert torch.equal(seen == 0, cells[:, : seen.shape[3]].expand(seen.shape))
        assert seen.min() == lowest


def test_carried_mask_that_was_written_to_is_read_from_its_cells() -> None:
    """A view of the cells, written to, must not leave the old expression in force."""
    mask = carried()
    q = torch.randn(2, 1, 6, 8)
    assert (plugin.attention(torch.nn.Module(), q, q, q, mask)[0] != 0).all()
    row = mask[:, :, 4:]
    assert (plugin.attention(torch.nn.Module(), q, q, q, mask)[0] != 0).all()
    row[:, :, 1].fill_(-torch.inf)
    out, _ = plugin.attention(torch.nn.Module(), q, q, q, mask)
    assert (out[:, 5] == 0).all()
    assert (out[:, 4] != 0).all()


def calls(text: str) -> Iterator[ast.Call]:
    """Parse each call of an attention interface, and nothing else of a long file."""
    for found in re.finditer(
        r"= attention_interface\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", text
    ):
        yield ast.parse(found[0].removeprefix("= ")).body[0].value  # type: ignore[attr-defined]


def test_every_keyword_that_models_pass_is_carried_or_refused() -> None:
    """A keyword that a new release adds must be looked at, not swallowed."""
    known = {*inspect.signature(plugin.attention).parameters, *plugin.REFUSED}
    harmless = {
        "position_ids": "already in the mask and the rotations",
        "max_length_q": "a size that goes with cu_seq_lens_q",
        "max_length_k": "a size that goes with cu_seq_lens_k",
        "deterministic": "we are",
    }
    folder = Path(transformers.__file__).parent / "models"
    passed = {
        word.arg
        for path in folder.glob("*/modeling_*.py")
        for call in calls(path.read_text(encoding="utf-8"))
        for word in call.keywords
    }
    assert passed - {None} - known - harmless.keys() == set()
    assert {"scaling", "s_aux", "position_bias", "indices"} <= passed


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"dropout": 0.1}, "dropout"),
        ({"indices": torch.zeros(1)}, "indices"),
        ({"cu_seq_lens_q": torch.zeros(1)}, "cu_seq_lens_q"),
        ({"attention_mask": torch.ones(1, 6, dtype=torch.long)}, "attention_mask"),
        ({"attention_mask": torch.ones(1, 1, 6, 5, dtype=torch.bool)}, "attention_mask"),
        ({"attention_mask": None}, "attention_mask"),
        ({"attention_mask": None, "is_causal": True, "sliding_window": 3}, "attention_mask"),
    ],
)
def test_what_is_not_carried_is_refused_by_name(asked: dict[str, Any], word: str) -> None:
    """A silent drop is the fault that this whole project is against."""
    q = torch.randn(1, 2, 6, 8)
    mask = carried(batch_size=1)
    with pytest.raises(Unsupported, match=word):
        plugin.attention(torch.nn.Module(), q, q, q, **{"attention_mask": mask, **asked})


def test_carried_mask_costs_no_cells() -> None:
    """A million tokens of causal mask would take a terabyte as a matrix."""
    mask = carried(q_length=1 << 20, kv_length=1 << 20)
    assert isinstance(mask, Carried)
    assert mask.shape == (2, 1, 1 << 20, 1 << 20)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(architectures()))
def test_every_causal_architecture_equals_eager_or_is_refused(name: str) -> None:
    """What the library can build, tiny and random: the same logits, or a refusal that says why.

    gemma3n thresholds its activations, where a last bit of float32 shows: it runs in float64.
    """
    dtype = torch.float64 if name == "gemma3n_text" else torch.float32
    try:
        eager = tiny(name).to(dtype)
        real = torch.ones(2, 13, dtype=torch.long)
        real[1, :4] = 0
        given = {"input_ids": ids(2, 13) % 40 + 3, "attention_mask": real}
        with torch.no_grad():
            want = eager(**given).logits
    except Exception as error:
        pytest.skip(f"transformers cannot run it on eager: {error}"[:200])
    try:
        ours = type(eager)._from_config(copy.deepcopy(eager.config), attn_implementation="hitherto")
        ours.load_state_dict(eager.state_dict())
        with torch.no_grad():
            got = ours.to(dtype).eval()(**given).logits
    except (Unsupported, KeyError) as error:
        refused = str(error)
    else:
        refused = None
    if refused is not None:
        assert re.match("indices|sinks|'hitherto'", refused)
        return
    span = float(want.abs().max())
    torch.testing.assert_close(got[real.bool()], want[real.bool()], rtol=1e-5, atol=1e-5 * span)
