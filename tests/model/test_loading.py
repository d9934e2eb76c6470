"""Checkpoints of real families give the logits that transformers gives."""

import json

import pytest
import torch
from torch.testing import assert_close

from hitherto.errors import ModelError
from hitherto.model.loading import load_decoder
from model.checkpoints import CHECKPOINTS, VOCAB, reference, write_folder, write_gguf

pytest.importorskip("transformers", reason="writes the checkpoints")
pytest.importorskip("gguf", reason="writes the checkpoints")

CLOSE = {"rtol": 0, "atol": 1e-4}
IDS = torch.randint(0, VOCAB, (2, 41), generator=torch.Generator().manual_seed(3))
SAME_WINDOW = [name for name in CHECKPOINTS if name not in ("mistral", "gemma3", "qwen2")]
"""Families whose GGUF says all that their tiny config asks for."""


@torch.no_grad()
def logits(model) -> torch.Tensor:
    out = model(IDS)
    return out if isinstance(out, torch.Tensor) else out.logits


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_folder_gives_the_logits_of_transformers(name, tmp_path):
    """41 tokens, windows of 7: would catch a window off by one, swapped norms, a base forgotten."""
    model = reference(name)
    loaded = load_decoder(write_folder(model, tmp_path))
    assert_close(logits(loaded), logits(model), **CLOSE)


@pytest.mark.parametrize("name", SAME_WINDOW)
def test_gguf_gives_the_logits_of_the_folder(name, tmp_path):
    """Would catch GGUF's order of Llama's rows, and angles that are stretched there by a tensor."""
    model = reference(name)
    gguf = load_decoder(write_gguf(model, tmp_path / "model.gguf", name))
    assert_close(logits(gguf), logits(load_decoder(write_folder(model, tmp_path))), **CLOSE)


def test_gguf_of_gemma_gives_the_logits_of_transformers(tmp_path):
    """Its norms hold 1 + weight there; a folder's do not."""
    model = reference(
        "gemma3", layer_types=["sliding_attention"] * 3, final_logit_softcapping=None,
        sliding_window=4096, rope_parameters=None,
    )  # fmt: skip
    loaded = load_decoder(write_gguf(model, tmp_path / "model.gguf", "gemma3"))
    assert_close(logits(loaded), logits(model), **CLOSE)


@pytest.mark.parametrize("form", ["Q8_0", "Q4_1", "BF16", "F16"])
def test_gguf_of_quantised_numbers_gives_what_they_stand_for(form, tmp_path):
    """Would catch rows read in the wrong order when a tensor is read in pieces."""
    import gguf

    model = reference("llama")
    path = write_gguf(model, tmp_path / "model.gguf", "llama", quantise=form)
    kind = gguf.GGMLQuantizationType[form]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                rounded = gguf.dequantize(gguf.quantize(weight.numpy(), kind), kind)
                weight.copy_(torch.from_numpy(rounded.reshape(weight.shape)))
            assert name
    assert_close(logits(load_decoder(path)), logits(model), **CLOSE)


def test_folder_of_parts_gives_the_same(tmp_path):
    model = reference("llama3")
    write_folder(model, tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    assert_close(logits(load_decoder(tmp_path)), logits(model), **CLOSE)


def test_folder_of_gpt2_without_a_stem_loads(tmp_path):
    """The checkpoint everybody has calls its tensors wte.weight, not transformer.wte.weight."""
    from safetensors.torch import save_file

    model = reference("gpt2")
    write_folder(model, tmp_path)
    tensors = {k.removeprefix("transformer."): v for k, v in model.state_dict().items()}
    tensors = {k: v for k, v in tensors.items() if k != "lm_head.weight"}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 4, 4)
    save_file(tensors, tmp_path / "model.safetensors")
    assert_close(logits(load_decoder(tmp_path)), logits(model), **CLOSE)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
def test_weights_come_in_the_dtype_asked_for(stored, wanted, tmp_path):
    model = reference("qwen2").to(stored)
    loaded = load_decoder(write_folder(model, tmp_path), wanted)
    assert {p.dtype for p in loaded.parameters()} == {wanted}
    expected = model.model.layers[1].mlp.up_proj.weight.to(wanted)
    assert torch.equal(loaded.stack.blocks[1].feed_forward.up.weight, expected)


def test_training_a_mapped_model_leaves_its_file_alone(tmp_path):
    """The weights are a mapping of the file: a step must not write into it."""
    write_folder(reference("llama"), tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = load_decoder(tmp_path)
    model(IDS).sum().backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not torch.equal(logits(model), logits(load_decoder(tmp_path)))


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("llama", {"attention_bias": True}, "attention_bias must be False"),
        ("llama", {"hidden_act": "mish"}, "hidden_act must be one of silu"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "rope_type must be"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config must be a setting"),
        ("llama", {"model_type": "phi3"}, "model_type must be one of llama"),
        ("llama", {"num_hidden_layers": 4}, "number of layers must be that of the tensors, 3"),
        ("llama", {"num_hidden_layers": 10**12}, "number of layers must be that of the tensors, 3"),
        ("llama", {"vocab_size": 98}, r"must give stack.embedding.weight \(98, 32\)"),
        ("llama", {"vocab_size": 10**15}, "vocab_size must be from 1 to"),
        ("llama", {"hidden_size": "32"}, "hidden_size must be given, as int"),
        ("llama", {"architectures": ["LlamaForSequenceClassification"]}, "causal language model"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention must be"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("qwen3", {"layer_types": ["linear_attention"] * 3}, "layer_types must be 3 of"),
    ],
)  # fmt: skip
def test_config_that_asks_for_more_is_refused_by_name(name, changes, says, tmp_path):
    """A setting that is ignored gives a model that runs, and is wrong."""
    write_folder(reference(name), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ModelError, match=says):
        load_decoder(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop("model.norm.weight"), "model.norm.weight must be in the file"),
        (lambda t: t.update(extra=torch.ones(2)), "extra must belong to the model"),
        (
            lambda t: t.update({"model.norm.weight": torch.ones(31)}),
            r"must give stack.norm.weight \(32,\); got \(31,\)",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.ones(32).to(torch.int8)}),
            "must be of floating numbers",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(change, says, tmp_path):
    from safetensors.torch import save_file

    model = reference("llama3")
    write_folder(model, tmp_path)
    tensors = model.state_dict()
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=says):
        load_decoder(tmp_path)


def test_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"must hold a config\.json"):
        load_decoder(tmp_path)
    with pytest.raises(ModelError, match="must be a file or a folder"):
        load_decoder(tmp_path / "nothing")
