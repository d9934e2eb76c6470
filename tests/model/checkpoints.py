"""Tiny random checkpoints of real families, written by transformers itself and as GGUF."""

from pathlib import Path

import numpy as np
import torch

VOCAB, WIDTH, HEADS, KV_HEADS = 97, 32, 4, 2

SHAPE = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 256,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip
LINEAR = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]

CHECKPOINTS: dict[str, tuple[str, dict]] = {
    "llama": ("Llama", {"tie_word_embeddings": True}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3, "head_dim": 16}),
    "mistral": ("Mistral", {"sliding_window": 7}),
    "qwen2": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "layer_types": LAYERS},
    ),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "gemma3": (
        "Gemma3Text",
        {
            "head_dim": 16, "sliding_window": 7, "layer_types": LAYERS, "rope_parameters": LINEAR,
            "query_pre_attn_scalar": 16, "final_logit_softcapping": 30.0,
            "tie_word_embeddings": True,
        },
    ),
    "gpt2": (
        "GPT2",
        {"n_embd": WIDTH, "n_layer": 3, "n_head": HEADS, "vocab_size": VOCAB, "n_positions": 256,
         "bos_token_id": 1, "eos_token_id": 2},
    ),
}  # fmt: skip
"""Name: class of transformers, what its config has besides SHAPE."""


def reference(name: str, seed: int = 0, **changes: object):
    """A model of transformers with random weights, norms and biases included."""
    import transformers

    prefix, extra = CHECKPOINTS[name]
    shape = {} if prefix == "GPT2" else SHAPE
    config = getattr(transformers, f"{prefix}Config")(**shape | extra | changes)
    causal = {"Gemma3Text": "Gemma3ForCausalLM", "GPT2": "GPT2LMHeadModel"}
    torch.manual_seed(seed)
    model = getattr(transformers, causal.get(prefix, f"{prefix}ForCausalLM"))(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return model


def write_folder(model, folder: Path, **options: object) -> Path:
    """As its users save it."""
    model.save_pretrained(folder, **options)
    return folder


ARCHITECTURE = {"llama3": "llama", "gemma3": "gemma3"}
PARTS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
GEMMA_PARTS = PARTS | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
WHOLE = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "transformer.wte": "token_embd", "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
}  # fmt: skip


def write_gguf(model, path: Path, name: str, quantise: str | None = None, **more: object) -> Path:
    """The same model as llama.cpp's converter would write it, vocabulary left out."""
    import gguf

    kind = ARCHITECTURE.get(name, name)
    writer = gguf.GGUFWriter(path, kind)
    config = model.config
    gpt2, scaled = kind == "gpt2", name == "llama3"
    settings = {
        "context_length": 256, "embedding_length": WIDTH, "block_count": 3,
        "feed_forward_length": 4 * WIDTH if gpt2 else 64, "attention.head_count": HEADS,
    }  # fmt: skip
    for key, value in settings.items():
        writer.add_uint32(f"{kind}.{key}", value)
    if gpt2:
        writer.add_float32(f"{kind}.attention.layer_norm_epsilon", config.layer_norm_epsilon)
    else:
        rope = config.rope_parameters.get("full_attention", config.rope_parameters)
        writer.add_uint32(f"{kind}.attention.head_count_kv", KV_HEADS)
        writer.add_float32(f"{kind}.attention.layer_norm_rms_epsilon", config.rms_norm_eps)
        writer.add_float32(f"{kind}.rope.freq_base", rope["rope_theta"])
        if getattr(config, "head_dim", None):
            writer.add_uint32(f"{kind}.attention.key_length", config.head_dim)
    for key, value in more.items():
        writer.add_string(key, value)
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = _converted(key, tensor, kind).numpy()
        if quantise and values.ndim == 2 and values.shape[-1] % 32 == 0:
            form = gguf.GGMLQuantizationType[quantise]
            writer.add_tensor(_named(key, kind), gguf.quantize(values, form), raw_dtype=form)
        else:
            writer.add_tensor(_named(key, kind), values)
    if scaled:
        writer.add_tensor("rope_freqs.weight", _factors(model))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file):
        step()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _converted(key: str, tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """Rows of Llama's queries and keys with a pair side by side, GPT-2's matrices turned."""
    if kind == "llama" and (".q_proj." in key or ".k_proj." in key):
        heads = HEADS if ".q_proj." in key else KV_HEADS
        halves = tensor.view(heads, 2, tensor.shape[0] // heads // 2, -1)
        return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()
    if kind == "gemma3" and key.endswith("norm.weight"):
        return tensor + 1
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return tensor.T.contiguous() if key.endswith(turned) else tensor


def _named(key: str, kind: str) -> str:
    stem, _, ending = key.rpartition(".")
    if stem in WHOLE:
        return f"{WHOLE[stem]}.{ending}"
    _, _, inner = stem.partition("layers." if "layers." in stem else "h.")
    layer, _, part = inner.partition(".")
    parts = GEMMA_PARTS if kind == "gemma3" else PARTS
    return f"blk.{layer}.{parts[part]}.{ending}"


def _factors(model) -> np.ndarray:
    """How much slower transformers turns each pair."""
    config, slow = model.config, model.model.rotary_emb.inv_freq
    pair = torch.arange(0, config.head_dim, 2) / config.head_dim
    return (1 / config.rope_parameters["rope_theta"] ** pair / slow).numpy()


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = ["the cat sat on the mat", "the dog sat on the log", "naïve café 日本語", "1 2 3 42 2024"]
TOKENS = 300


def byte_tokenizer():
    """A byte-level BPE of TOKENS tokens, learned from TEXTS; the last is an added word."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS - 1, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    library.train_from_iterator(TEXTS * 20, trainer)
    library.add_tokens(["<think>"])
    return library


def write_talking_folder(folder: Path) -> Path:
    """A tiny Llama with a tokenizer and a chat template."""
    import json

    write_folder(reference("llama", vocab_size=TOKENS), folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"chat_template": TEMPLATE, "add_bos_token": False, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
