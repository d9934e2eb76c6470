"""How small each number of a model's config may be, by its name.

The numbers fit together: heads times head_dim is the width, experts divide into groups, state
spaces have width * 2 channels. Windows and chunks are small enough that a short input passes them.
"""

import re
from collections.abc import Mapping

WIDTH, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 16
VOCAB, POSITIONS, WINDOW = 128, 512, 8
INITIAL = 0.125
"""Standard deviation of random weights: 1 / sqrt(WIDTH) keeps every influence above rounding."""

_LIMITS = (
    (
        POSITIONS,
        r"(.*_)?(max_(source_|target_)?positions?(_embeddings)?|n_positions|n_ctx|max_pos_emb"
        r"|max_seq(uence)?_len(gth)?|model_max_length|context_length)",
    ),
    (VOCAB, r".*vocab(_size(_.*)?)?"),
    (
        HEAD_DIM,
        r"(.*_)?(head_dim|d_kv|kv_channels|dim_head|d_head|head_size|(key|value)_dim)"
        r"|.*_rank|.*lowrank|d_rel|adapter_out_dim",
    ),
    (
        WINDOW,
        r"(.*_)?rotary_dim|.*d_state|(ssm_)?state_size|.*window(_size|_len(gth)?)?|.*chunk_size"
        r"|.*chunk_len(gth)?|block_size|index(er)?_(topk|budget)|rel_extent|.*mamba_(n|num)_heads"
        r"|n_mamba_heads",
    ),
    (
        4,
        r".*(num_|n_|routed_|local_)experts|zero_expert_num|.*conv_kernel(_size)?|.*d_conv",
    ),
    (
        2,
        r"(.*_)?(num|n|encoder|decoder)_(hidden_|encoder_|decoder_)?layers?|depth|num_blocks"
        r"|.*experts_per_tok(en)?|.*top_?k|moe_k|n_group|num_expert_group|.*(period|interval)"
        r"|prompt_length|num_hashes|chunk_(left|right)_context",
    ),
    (
        1,
        r"topk_group|first_k_dense_replace|num_dense_layers|.*_offset|num_nextn_predict_layers"
        r"|(n|num|moe_num)_shared_experts|n_(in|out)put_layers",
    ),
    (
        WIDTH,
        r"(.*_)?(hidden_size(_.*)?|d_model|n_embd|embed_dim|embedding_(size|dim)|emb_dim|dim"
        r"|dim_model|(hidden|input|output|word_embed_proj|projection|out)_dim|input_size"
        r"|intermediate_size(_.*)?|intermediate_dim|ffn_dim|d_ff|dim_ff|ffn_hidden_size|n_inner"
        r"|inner_dim|ffn_size)",
    ),
)
_RULES = [(re.compile(pattern), limit) for limit, pattern in _LIMITS]
_FIRST = re.compile(_LIMITS[6][1])
_KV = re.compile(r".*(key_value|kv)_heads|n_head_kv|kv_n_heads|.*num_key_heads")
_HEADS = re.compile(r"(.*_)?(n_heads?|num_heads|heads|num_(query|value)_heads)")
_LEAVE = re.compile(
    r".*_token_(id|index)|chunk_size_feed_forward|num_labels|.*_version|.*image_size|seed"
)
_SPREAD = ("initializer_range", "init_std")


def small(name: str, value: int | float, config: Mapping[str, object]) -> int | float:
    """Return how large this number of a config may be; itself where no rule speaks of it.

    Args:
        name: of the field.
        value: in the full-size config.
        config: all its fields.
    """
    if isinstance(value, bool) or _LEAVE.fullmatch(name):
        return value
    if isinstance(value, float):
        return max(value, INITIAL) if name in _SPREAD else value
    if value <= 1:
        return value
    if name == "num_heads" and "expand" in config:
        return int(config["expand"] * WIDTH // HEAD_DIM)  # type: ignore[operator]
    if _FIRST.fullmatch(name):
        return 1
    if _KV.fullmatch(name):
        heads = config.get("num_attention_heads", config.get("n_head"))
        return HEADS if value == heads else min(value, KV_HEADS)
    for pattern, limit in _RULES:
        if pattern.fullmatch(name):
            return min(value, limit)
    return min(value, HEADS) if _HEADS.fullmatch(name) else value


_FILLED = (
    (KV_HEADS, r".*(key_value|kv)_heads"),
    (2, r".*experts_per_tok(en)?|moe_topk"),
    (HEAD_DIM, r"(.*_)?head_dim"),
    (4, r"(n_routed|num|num_local)_experts"),
    (1, r"n_shared_experts"),
)


def filled(name: str) -> int | None:
    """Return a value for a field that a config may leave as None although the model needs it."""
    return next((value for value, pattern in _FILLED if re.fullmatch(pattern, name)), None)
