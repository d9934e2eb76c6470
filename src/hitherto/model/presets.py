"""Known shapes, as configs; any setting can be changed by keyword."""

from typing import Any

from hitherto.model.config import DecoderConfig


def gpt2(**changes: Any) -> DecoderConfig:
    """GPT-2 small, 124M parameters.

    Source: https://huggingface.co/openai-community/gpt2/blob/main/config.json
    """
    return _changed(
        changes,
        vocab_size=50257,
        width=768,
        num_layers=12,
        num_heads=12,
        max_length=1024,
        positions="learned",
        norm="layer",
        norm_eps=1e-5,
        activation="gelu_tanh",
        gated=False,
        bias=True,
        tied=True,
    )


def llama(**changes: Any) -> DecoderConfig:
    """Llama 3 8B: grouped heads, rotary positions, SwiGLU, RMSNorm.

    Source: https://arxiv.org/abs/2407.21783, table 3
    """
    return _changed(
        changes,
        vocab_size=128256,
        width=4096,
        num_layers=32,
        num_heads=32,
        num_kv_heads=8,
        hidden=14336,
        max_length=8192,
        rotary_bases=(500_000.0,),
        norm_eps=1e-5,
    )


def gemma3(**changes: Any) -> DecoderConfig:
    """Gemma 3 1B: five layers that see 512 positions, then one that sees all.

    Source: https://arxiv.org/abs/2503.19786
    """
    width = changes.get("width", 1152)
    return _changed(
        changes,
        vocab_size=262144,
        width=width,
        num_layers=26,
        num_heads=4,
        num_kv_heads=1,
        head_dim=256,
        hidden=6912,
        max_length=32768,
        layer_masks=("Window(512)",) * 5 + ("Causal()",),
        rotary_bases=(10_000.0,) * 5 + (1_000_000.0,),
        norm_offset=True,
        norm_after=True,
        norm_qk=True,
        activation="gelu_tanh",
        tied=True,
        embedding_scale=width**0.5,
    )


def tiny(**changes: Any) -> DecoderConfig:
    """The demo's model over bytes, for a minute of training on two cores.

    Each layer sees four times as far as the one below. So the first layers learn the nearest bytes
    at once, where a wide view takes hundreds of steps to find them.
    """
    return _changed(
        changes,
        vocab_size=256,
        width=128,
        num_layers=4,
        num_heads=4,
        hidden=512,
        layer_masks=("Window(4)", "Window(16)", "Window(64)", "Window(256)"),
        rotary_bases=(300.0,),
        norm="layer",
        norm_qk=True,
        activation="relu_squared",
        gated=False,
    )


def _changed(changes: dict[str, Any], **values: Any) -> DecoderConfig:
    return DecoderConfig(**(values | changes))
