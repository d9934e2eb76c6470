"""The settings of a GGUF file, in the words of a config.json, so that one reader does for both.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hitherto.errors import ModelError, explain
from hitherto.model.config import DecoderConfig
from hitherto.model.loading.families import read_config
from hitherto.model.loading.gguf_file import GGUF
from hitherto.model.loading.settings import Settings

GATED = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
}
PLAIN = {
    "context_length": "n_positions",
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}
ARCHITECTURES: dict[str, tuple[str, Mapping[str, str], Mapping[str, Any]]] = {
    "llama": ("llama", GATED, {"hidden_act": "silu"}),
    "qwen2": ("qwen2", GATED, {"hidden_act": "silu"}),
    "qwen3": ("qwen3", GATED, {"hidden_act": "silu"}),
    "gemma3": ("gemma3_text", GATED, {"hidden_activation": "gelu_pytorch_tanh"}),
    "gpt2": ("gpt2", PLAIN, {}),
}
"""By `general.architecture`: model type, names of its settings, and what goes without saying."""

CHECKED = ("attention.value_length", "rope.dimension_count", "vocab_size", "rope.scaling.type",
           "rope.scaling.factor", "rope.scaling.original_context_length")  # fmt: skip
"""Settings read below, each by itself."""

ABOUT = ("general.", "tokenizer.", "split.", "quantize.")
"""Settings of other concerns than what the model computes."""


def read_metadata(file: GGUF, origin: str) -> DecoderConfig:
    """The config that the settings of a GGUF file ask for.

    Raises:
        ModelError: naming the setting that asks for what we do not do.
    """
    given = Settings(file.metadata, origin)
    kind = given.choose("general.architecture", {name: name for name in ARCHITECTURES})
    model_type, names, known = ARCHITECTURES[kind]
    _require_one_file(given)
    values = {"model_type": model_type, **known}
    for name, plain in names.items():
        value = file.metadata.get(f"{kind}.{name}")
        if value is not None:
            values[plain] = value
    values["vocab_size"] = _vocab(file, given)
    values["tie_word_embeddings"] = "output.weight" not in file.tensors
    _refuse_unknown(given, kind, names)
    _add_rotary(given, kind, values)
    if kind == "gemma3":
        # No GGUF says this; llama.cpp has it in its code: 27B alone scales by width over heads.
        values["query_pre_attn_scalar"] = float(given.take("gemma3.attention.key_length", int, 256))
        if given.take("gemma3.block_count", int) == 62:
            given.refuse("gemma3.block_count", "must be of a size up to 12B", 62)
    config = read_config(Settings(values, origin))
    _require_whole_heads(given, kind, config)
    return _as_stored(file, config, kind)


def _as_stored(file: GGUF, config: DecoderConfig, kind: str) -> DecoderConfig:
    """What the tensors of a GGUF file say of themselves: folded norms, stretched angles."""
    if kind == "gemma3":
        config = replace(config, norm_offset=False)
    if (factors := file.tensors.get("rope_freqs.weight")) is not None:
        if factors.shape != (config.head_dim // 2,) or factors.kind != "F32":
            raise ModelError(
                explain("rope_freqs.weight", f"must be {config.head_dim // 2} numbers, F32",
                        f"{factors.shape} {factors.kind}", "use another file")
            )  # fmt: skip
        config = replace(config, rotary_factors=tuple(factors.read().tolist()))
    return config


def _vocab(file: GGUF, given: Settings) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        given.refuse("token_embd.weight", "must be a matrix", embedding and embedding.shape)
    return embedding.shape[0]


def _require_one_file(given: Settings) -> None:
    count = given.values.get("split.count", 0)
    if type(count) is not int or count > 1:
        given.refuse("split.count", "must be 1: a model in one file", count)


def _refuse_unknown(given: Settings, kind: str, names: Mapping[str, str]) -> None:
    for name, value in given.values.items():
        known = name.startswith(ABOUT) or name.removeprefix(f"{kind}.") in (*names, *CHECKED)
        if not known:
            given.refuse(name, "must be a setting that we know", value)


def _add_rotary(given: Settings, kind: str, values: dict[str, Any]) -> None:
    known = {"none": False, "linear": True}
    if given.choose(f"{kind}.rope.scaling.type", known, "none"):
        factor = given.take(f"{kind}.rope.scaling.factor", float)
        values["rope_scaling"] = {"type": "linear", "factor": factor}


def _require_whole_heads(given: Settings, kind: str, config: DecoderConfig) -> None:
    for name in ("attention.value_length", "rope.dimension_count"):
        value = given.take(f"{kind}.{name}", int, config.head_dim)
        if value != config.head_dim:
            given.refuse(f"{kind}.{name}", f"must be the heads' {config.head_dim}", value)
