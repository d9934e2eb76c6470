"""The shrinker: tiny configs that keep every kind of layer, of a fixed sample of architectures."""

import pytest

transformers = pytest.importorskip("transformers", reason="needs the transformers extra")

from hitherto.errors import Unsupported  # noqa: E402
from hitherto.integrations.shrink import shrink  # noqa: E402
from hitherto.integrations.sizes import VOCAB, WINDOW, small  # noqa: E402
from hitherto.integrations.tiny import architectures, tiny, tiny_config  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore:.*:FutureWarning")]
SAMPLE = ("gpt2", "qwen3_next", "deepseek_v3", "gemma3n_text", "mamba2", "zamba2", "dbrx")


@pytest.mark.parametrize("name", SAMPLE)
def test_shrink_builds_a_small_model_that_runs(name: str) -> None:
    """Divisibility, nested configs, experts, state spaces: each refused the first rules once."""
    import torch

    model = tiny(name)
    assert sum(p.numel() for p in model.parameters()) < 2_000_000
    with torch.no_grad():
        logits = model(input_ids=torch.arange(20, 43)[None]).logits
    assert logits.shape == (1, 23, VOCAB)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", ["qwen3_next", "gemma3_text", "gpt_oss", "llama4_text", "lfm2"])
def test_shrink_keeps_every_kind_of_layer(name: str) -> None:
    """Two layers of a kind that comes first would hide the fault in the kind that comes fourth."""
    full = transformers.CONFIG_MAPPING[name]()
    config = tiny_config(name)
    assert set(config.layer_types) == set(full.layer_types)
    assert len(config.layer_types) == config.num_hidden_layers <= 6


def test_shrink_makes_windows_short_enough_to_pass() -> None:
    """A window that no test input reaches is never tested."""
    assert tiny_config("mistral").sliding_window == WINDOW
    assert tiny_config("llama4_text").attention_chunk_size == WINDOW


def test_shrink_keeps_special_tokens_apart_and_inside_the_vocabulary() -> None:
    """Image and padding tokens that fell on one id, or beyond the embedding, broke the forward."""
    config = tiny_config("gemma3")
    ids = [config.image_token_index, config.boi_token_index, config.eoi_token_index]
    assert len(set(ids)) == 3
    assert max(ids) < config.get_text_config().vocab_size == VOCAB


def test_shrink_starts_from_a_given_config() -> None:
    """A user's own settings must survive, or another model is audited."""
    given = transformers.LlamaConfig(num_key_value_heads=1, attention_bias=True)
    config = shrink(transformers.LlamaConfig, full=given)
    assert config.attention_bias
    assert config.num_key_value_heads == 1
    assert config.hidden_size == 64


def test_small_leaves_flags_and_unknown_numbers_alone() -> None:
    """True is an int in Python, and a rope base is no width."""
    assert small("use_sliding_window", True, {}) is True
    assert small("rope_theta", 10000, {}) == 10000
    assert small("head_dim", 256, {}) == 16
    assert small("num_key_value_heads", 32, {"num_attention_heads": 32}) == 4
    assert small("num_key_value_heads", 1, {"num_attention_heads": 32}) == 1


def test_tiny_gives_the_same_weights_for_a_seed() -> None:
    """A finding must be seen again by its reproducer."""
    import torch

    one, two, other = tiny("gpt2"), tiny("gpt2"), tiny("gpt2", seed=1)
    name = "transformer.h.0.attn.c_attn.weight"
    assert torch.equal(one.get_parameter(name), two.get_parameter(name))
    assert not torch.equal(one.get_parameter(name), other.get_parameter(name))


def test_tiny_refuses_an_unknown_type() -> None:
    """A typing error must not end in a stack trace of the library."""
    with pytest.raises(Unsupported, match="gpt9"):
        tiny("gpt9")


def test_architectures_lists_both_tasks() -> None:
    """An empty list would make the sweep clean."""
    assert architectures("causal")["llama"] == "LlamaForCausalLM"
    assert architectures("seq2seq")["t5"] == "T5ForConditionalGeneration"
