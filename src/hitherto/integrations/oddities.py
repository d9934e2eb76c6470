"""The few architectures for which general rules are not enough, each with its reason."""

from dataclasses import dataclass, field
from typing import Any

from hitherto.mask import Causal, Everything, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """What is special about an architecture."""

    fixes: dict[str, Any] = field(default_factory=dict)
    """Fields of the tiny config that are set to these values."""
    mask: Mask = field(default_factory=Causal)
    """What it is built to see; not causal only where its authors say so."""
    left_out: str = ""
    """Why the sweep cannot run it, or empty."""
    note: str = ""
    """What the fixes or the mask are for."""

    @property
    def is_causal(self) -> bool:
        """Whether the mask is the usual one; its config may then say more, layer by layer."""
        return self.mask == Causal()


_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_ALTERNATE = ["linear_attention", "full_attention"]
_SWA = {
    "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_q_lora_rank": 16,
    "swa_kv_lora_rank": 16, "swa_head_dim": 32, "swa_qk_nope_head_dim": 16, "swa_v_head_dim": 16,
}  # fmt: skip
_QSA = {
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8,
    "indexer_compress_ratio": 2,
}  # fmt: skip
_BERT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 128, "initializer_range": 0.125,
}  # fmt: skip
_DRAFTER = "a drafter: it reads the states of the model that it drafts for"
_SHARED = {
    "num_hidden_layers": 5,
    "layers_block_type": ["linear_attention"] * 2 + ["hybrid", "linear_attention", "hybrid"],
}
_TWO = "later attention layers share the first one's weights, so there must be two"
_TEXT_HEADS = {"text_config": {"num_key_value_heads": 2}}
_OWN_HEADS = "its decoder's key heads are set by the parent's default"
_THIN = {"num_filters": 2, "depths": [1] * 7}
_CODEBOOK = "one codebook, so that a position is one token"

ODDITIES: dict[str, Oddity] = {
    "bamba": Oddity(fixes={"attn_layer_indices": [1]}, note="its default has no attention"),
    "cohere_compass_text": Oddity(
        fixes={"rope_parameters": {"full_attention": _ROPE}},
        note="its default config has no rotary settings",
    ),
    "cpmant": Oddity(
        mask=Everything(), note="reads its prompt both ways; it fills in what comes next"
    ),
    "dbrx": Oddity(
        fixes={"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
        note="its default config has no rotary settings and no clip",
    ),
    "dory": Oddity(
        fixes={
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
        note="layers before, inside and after its loop",
    ),
    "dots3_note": Oddity(fixes=_SWA, note="window layers have their own sizes"),
    "dots3_note_text": Oddity(fixes=_SWA, note="window layers have their own sizes"),
    "encoder-decoder": Oddity(
        fixes={
            "encoder": {"model_type": "bert", **_BERT},
            "decoder": {"model_type": "bert", "is_decoder": True, "add_cross_attention": True,
                        **_BERT},
        },
        note="a BERT that reads and a BERT that writes",
    ),
    "gemma3n": Oddity(left_out="its image tower needs the timm package; gemma3n_text is run"),
    "gemma4_assistant": Oddity(left_out=_DRAFTER),
    "gemma4_unified_assistant": Oddity(left_out=_DRAFTER),
    "granitemoehybrid": Oddity(
        fixes={"layer_types": _ALTERNATE}, note="its default has no attention"
    ),
    "lfm2_moe": Oddity(
        fixes={"layer_types": ["conv", "full_attention", "conv"], "num_hidden_layers": 3},
        note="its default config lists no layers",
    ),
    "musicgen": Oddity(fixes={"num_codebooks": 1}, note=_CODEBOOK),
    "musicgen_melody": Oddity(fixes={"num_codebooks": 1}, note=_CODEBOOK),
    "qwen4_exp": Oddity(fixes=_QSA, note="its default leaves the indexer out"),
    "qwen4_exp_text": Oddity(fixes=_QSA, note="its default leaves the indexer out"),
    "recurrent_gemma": Oddity(
        fixes={"num_hidden_layers": 3}, note="two recurrent layers, then attention"
    ),
    "reformer": Oddity(
        fixes={
            "axial_pos_shape": [16, 32], "axial_pos_embds_dim": [32, 32], "is_decoder": True,
            "attn_layers": ["local", "lsh"], "num_buckets": 4, "hash_seed": 0,
        },
        note="axial positions must multiply to the length; the hash seed makes it repeat; LSH "
        "attention sorts the whole sequence, so that later inputs choose what a query sees",
    ),
    "nemo_speechlm": Oddity(fixes=_TEXT_HEADS, note=_OWN_HEADS),
    "vibevoice_asr": Oddity(
        fixes={
            "acoustic_tokenizer_chunk_size": 3200,
            "acoustic_tokenizer_encoder_config": _THIN, "semantic_tokenizer_encoder_config": _THIN,
        },
        note="a whole number of audio frames, and thin towers",
    ),
    "voxtral": Oddity(fixes=_TEXT_HEADS, note=_OWN_HEADS),
    "voxtral_realtime": Oddity(
        left_out="it hears while it writes: no step without its audio features"
    ),
    "xlm": Oddity(fixes={"causal": True}, note="causal only when asked"),
    "xlnet": Oddity(fixes={"attn_type": "uni"}, note="two-way unless asked"),
    "xlstm": Oddity(fixes={"hidden_size": 128}, note="head widths are multiples of 64"),
    "xmod": Oddity(fixes={"default_language": "en_XX"}, note="needs a language"),
    "zamba": Oddity(fixes=_SHARED, note=_TWO),
    "zamba2": Oddity(fixes=_SHARED, note=_TWO),
}  # fmt: skip


def oddity(model_type: str) -> Oddity:
    """Return what is special about an architecture; nothing, for most."""
    return ODDITIES.get(model_type, Oddity())
