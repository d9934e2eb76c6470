"""From the settings of a checkpoint to a `DecoderConfig`, for each family we run.

Source: the configuration classes of https://github.com/huggingface/transformers
"""

from collections.abc import Callable
from typing import Any

from hitherto.model.config import DecoderConfig
from hitherto.model.loading.rotary import read_rotary
from hitherto.model.loading.settings import Settings

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def read_config(settings: Settings) -> DecoderConfig:
    """The config that these settings ask for.

    Raises:
        ModelError: naming the setting that asks for what we do not do.
    """
    family = settings.choose("model_type", FAMILIES)
    named = settings.values.get("architectures") or []
    heads = ("LMHeadModel", "ForCausalLM")
    if not isinstance(named, list) or not all(str(name).endswith(heads) for name in named):
        settings.refuse("architectures", "must be a causal language model", named)
    config = family(settings)
    settings.finish()
    return config


def _llama(settings: Settings) -> DecoderConfig:
    biased = settings.take("mlp_bias", bool, False)
    settings.expect("attention_bias", biased)
    return DecoderConfig(**_gated(settings), **read_rotary(settings), bias=biased)


def _mistral(settings: Settings) -> DecoderConfig:
    width = settings.take("sliding_window", int, None)
    masks = ("Causal()",) if width is None else (f"Window({width})",)
    return DecoderConfig(**_gated(settings), **read_rotary(settings), layer_masks=masks)


def _qwen2(settings: Settings) -> DecoderConfig:
    return DecoderConfig(
        **_gated(settings),
        **read_rotary(settings),
        layer_masks=_qwen_masks(settings),
        qkv_bias=True,
    )


def _qwen3(settings: Settings) -> DecoderConfig:
    settings.expect("attention_bias", False)
    return DecoderConfig(
        **{"head_dim": 128} | _gated(settings), **read_rotary(settings),
        layer_masks=_qwen_masks(settings), norm_qk=True,
    )  # fmt: skip


def _gemma3(settings: Settings) -> DecoderConfig:
    settings.expect("attention_bias", False)
    settings.expect("use_bidirectional_attention", False)
    shape = _gated(settings, activation="hidden_activation", tied=True)
    types = _layer_types(settings, shape["num_layers"]) or _every(settings, shape["num_layers"])
    width = settings.take("sliding_window", int, 4096)
    return DecoderConfig(
        **{"head_dim": 256} | shape,
        **_gemma_rotary(settings, types),
        layer_masks=tuple("Causal()" if full else f"Window({width})" for full in types),
        norm_offset=True,
        norm_after=True,
        norm_qk=True,
        embedding_scale=shape["width"] ** 0.5,
        score_scale=settings.take("query_pre_attn_scalar", float, 256.0) ** -0.5,
        score_softcap=settings.take("attn_logit_softcapping", float, None),
        logit_softcap=settings.take("final_logit_softcapping", float, None),
    )


def _gpt2(settings: Settings) -> DecoderConfig:
    settings.expect("scale_attn_weights", True)
    settings.expect("scale_attn_by_inverse_layer_idx", False)
    settings.expect("add_cross_attention", False)
    width = settings.take("n_embd", int)
    return DecoderConfig(
        vocab_size=settings.take("vocab_size", int),
        width=width,
        num_layers=settings.take("n_layer", int),
        num_heads=settings.take("n_head", int),
        hidden=settings.take("n_inner", int, 4 * width),
        max_length=settings.take("n_positions", int),
        positions="learned",
        norm="layer",
        norm_eps=settings.take("layer_norm_epsilon", float, 1e-5),
        activation=settings.choose("activation_function", ACTIVATIONS, "gelu_new"),
        gated=False,
        bias=True,
        tied=settings.take("tie_word_embeddings", bool, True),
    )


FAMILIES: dict[str, Callable[[Settings], DecoderConfig]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
}
"""By `model_type`."""


def _gated(
    settings: Settings, activation: str = "hidden_act", tied: bool = False
) -> dict[str, Any]:
    """What all but GPT-2 have: RMSNorm, rotary positions, grouped heads, a gated feed-forward."""
    heads = settings.take("num_attention_heads", int)
    shape = {
        "vocab_size": settings.take("vocab_size", int),
        "width": settings.take("hidden_size", int),
        "num_layers": settings.take("num_hidden_layers", int),
        "num_heads": heads,
        "num_kv_heads": settings.take("num_key_value_heads", int, heads),
        "hidden": settings.take("intermediate_size", int),
        "max_length": settings.take("max_position_embeddings", int),
        "norm_eps": settings.take("rms_norm_eps", float, 1e-6),
        "activation": settings.choose(activation, ACTIVATIONS),
        "tied": settings.take("tie_word_embeddings", bool, tied),
    }
    head_dim = settings.take("head_dim", int, None)
    return shape if head_dim is None else shape | {"head_dim": head_dim}


def _layer_types(settings: Settings, num_layers: int) -> list[bool]:
    """Whether each layer sees everything (else a window); empty where it is not said."""
    types = settings.take("layer_types", list, [])
    known = {"full_attention": True, "sliding_attention": False}
    if types and (len(types) != num_layers or not all(name in known for name in types)):
        settings.refuse("layer_types", f"must be {num_layers} of {', '.join(known)}", types)
    return [known[name] for name in types]


def _every(settings: Settings, num_layers: int) -> list[bool]:
    pattern = settings.take("sliding_window_pattern", int, 6)
    return [(layer + 1) % pattern == 0 for layer in range(num_layers)]


def _qwen_masks(settings: Settings) -> tuple[str, ...]:
    num_layers = settings.take("num_hidden_layers", int)
    types = _layer_types(settings, num_layers)
    used = settings.take("use_sliding_window", bool, False)
    width = settings.take("sliding_window", int, None)
    first = settings.values.get("max_window_layers", 28)
    settings.skip("max_window_layers")
    if not types and used and type(first) is int:
        types = [layer < first for layer in range(num_layers)]
    if not used or width is None or all(types):
        return ("Causal()",)
    return tuple("Causal()" if full else f"Window({width})" for full in types)


def _gemma_rotary(settings: Settings, types: list[bool]) -> dict[str, Any]:
    """Two rotary bases: windows have their own, and only full layers are scaled."""
    local = settings.take("rope_local_base_freq", float, 10_000.0)
    split = "rope_parameters" in settings.values
    full = read_rotary(settings, "full_attention" if split else None)
    if not split and "rope_theta" not in settings.values:
        full["rotary_bases"] = (1_000_000.0,)
    near = read_rotary(settings, "sliding_attention") if split else {"rotary_bases": (local,)}
    if "rotary_factors" in full or "rotary_factors" in near:
        settings.refuse("rope_parameters", "must be of type default or linear", "llama3")
    pick = [full if sees_all else near for sees_all in types]
    return {
        "rotary_bases": tuple(rotary["rotary_bases"][0] for rotary in pick),
        "rotary_scales": tuple(rotary.get("rotary_scales", (1.0,))[0] for rotary in pick),
    }
