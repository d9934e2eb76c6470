"""Which stored tensor, or which part of it, each parameter of a `Decoder` is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from hitherto.errors import ModelError, explain
from hitherto.model.config import DecoderConfig
from hitherto.model.loading.stored import PLAIN, Stored

LLAMA = {
    "embedding": "model.embed_tokens",
    "norm": "model.norm",
    "head": "lm_head",
    "block": "model.layers.",
    "attention_norm": "input_layernorm",
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "feed_forward_norm": "post_attention_layernorm",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.up": "mlp.up_proj",
    "feed_forward.down": "mlp.down_proj",
}
GEMMA = LLAMA | {
    "attention_after": "post_attention_layernorm",
    "feed_forward_norm": "pre_feedforward_layernorm",
    "feed_forward_after": "post_feedforward_layernorm",
}
GPT2 = {
    "embedding": "wte",
    "places": "wpe",
    "norm": "ln_f",
    "head": "lm_head",
    "block": "h.",
    "attention_norm": "ln_1",
    "attention.query": "attn.c_attn",
    "attention.key": "attn.c_attn",
    "attention.value": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}
GGUF = {
    "embedding": "token_embd",
    "places": "position_embd",
    "norm": "output_norm",
    "head": "output",
    "block": "blk.",
    "attention_norm": "attn_norm",
    "attention.query": "attn_q",
    "attention.key": "attn_k",
    "attention.value": "attn_v",
    "attention.output": "attn_output",
    "attention.query_norm": "attn_q_norm",
    "attention.key_norm": "attn_k_norm",
    "attention_after": "post_attention_norm",
    "feed_forward_norm": "ffn_norm",
    "feed_forward_after": "post_ffw_norm",
    "feed_forward.gate": "ffn_gate",
    "feed_forward.up": "ffn_up",
    "feed_forward.down": "ffn_down",
}
FUSED = GGUF | dict.fromkeys(("attention.query", "attention.key", "attention.value"), "attn_qkv")
"""Names of the parts of a model in files of each kind: ours, theirs."""

UNUSED = (".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", "rope_freqs.weight")
"""Endings of stored tensors that are no weights: masks and angles, which we compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a parameter comes from."""

    stored: Stored
    """The tensor in the file."""
    part: tuple[int, int] | None = None
    """Which third of a fused query, key and value, as rows start, stop; None is all."""
    transposed: bool = False
    """Stored as (inputs, outputs), as GPT-2's own files have it."""
    heads: int = 0
    """In so many heads the two rows of a pair are neighbours, as GGUF has Llama's; 0: in none."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""
        shape = self.stored.shape[::-1] if self.transposed else self.stored.shape
        return shape if self.part is None else (self.part[1] - self.part[0], *shape[1:])

    @property
    def is_whole(self) -> bool:
        """Whether the parameter is the stored tensor as it is."""
        return self.part is None and not self.transposed and not self.heads

    def order(self) -> Tensor | None:
        """Row of the parameter for each stored row; None when they stand as stored."""
        if not self.heads:
            return None
        rows = torch.arange(self.stored.shape[0])
        return rows.view(self.heads, 2, -1).transpose(1, 2).flatten()


def places(
    config: DecoderConfig,
    parameters: Mapping[str, Tensor],
    tensors: Mapping[str, Stored],
    kind: str,
) -> dict[str, Place]:
    """The place of every parameter of a decoder, each checked against its shape.

    Args:
        config: the decoder's.
        parameters: its parameters by name; only their shapes are read.
        tensors: what is stored.
        kind: model type of a folder, or "gguf." and the architecture.
    Raises:
        ModelError: naming a tensor that is missing, has another shape, or belongs to nothing.
    """
    names = _names(kind, tensors)
    stem = "transformer." if names is GPT2 and "transformer.wte.weight" in tensors else ""
    found = {}
    for name, parameter in parameters.items():
        part, _, ending = name.removeprefix("stack.").rpartition(".")
        stored = tensors.get(f"{stem}{_spelled(part, names)}.{ending}")
        if stored is None:
            _refuse(f"{stem}{_spelled(part, names)}.{ending}", "must be in the file", "nothing")
        if stored.block[0] == 1 and stored.kind not in PLAIN:
            _refuse(stored.name, "must be of floating numbers", stored.kind)
        place = found[name] = _place(config, kind, part, stored)
        if place.shape != tuple(parameter.shape):
            _refuse(stored.name, f"must give {name} {tuple(parameter.shape)}", place.shape)
    _refuse_unused(tensors, {p.stored.name for p in found.values()}, config, names, stem)
    return found


def count_layers(tensors: Iterable[str], kind: str) -> int:
    """How many layers the names of the tensors speak of."""
    start = _names(kind, tensors)["block"]
    ends = (name.partition(start)[2].partition(".")[0] for name in tensors if start in name)
    return len({number for number in ends if number.isdecimal()})


def _names(kind: str, tensors: Iterable[str]) -> Mapping[str, str]:
    if kind.startswith("gguf."):
        return FUSED if kind == "gguf.gpt2" else GGUF
    return {"gpt2": GPT2, "gemma3_text": GEMMA}.get(kind, LLAMA)


def _spelled(part: str, names: Mapping[str, str]) -> str:
    """The file's name of one of our parts."""
    if part.startswith("blocks."):
        _, layer, inner = part.split(".", 2)
        return f"{names['block']}{layer}.{names[inner]}"
    return names[part]


def _place(config: DecoderConfig, kind: str, part: str, stored: Stored) -> Place:
    inner = part.partition("attention.")[2]
    if kind.endswith("gpt2"):
        transposed = kind == "gpt2" and len(stored.shape) == 2 and part.startswith("blocks.")
        third = ("query", "key", "value").index(inner) if inner in ("query", "key", "value") else -1
        cut = None if third < 0 else (third * config.width, (third + 1) * config.width)
        rows = stored.shape[-1 if transposed else 0]
        if cut and rows != 3 * config.width:
            _refuse(stored.name, f"must have {3 * config.width} rows", rows)
        return Place(stored=stored, part=cut, transposed=transposed)
    heads = {"query": config.num_heads, "key": config.num_kv_heads}.get(inner, 0)
    return Place(stored=stored, heads=heads if kind == "gguf.llama" else 0)


def _refuse_unused(
    tensors: Mapping[str, Stored],
    used: set[str],
    config: DecoderConfig,
    names: Mapping[str, str],
    stem: str,
) -> None:
    for name in tensors.keys() - used:
        # A tied head is saved again by some: the embedding is used, as in transformers.
        tied = config.tied and name == f"{names['head']}.weight"
        if not tied and not name.endswith(UNUSED):
            _refuse(name, "must belong to the model its config describes", "a tensor left over")


def _refuse(name: str, rule: str, came: object) -> NoReturn:
    raise ModelError(explain(f"tensor {name[:80]}", rule, came, "use another model"))
