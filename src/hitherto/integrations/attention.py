"""transformers models on our attention, each with its own masks.

    from hitherto.integrations.attention import register

    register()
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="hitherto")

transformers builds a layer's mask in one place and calls attention in another. We register both:
what is built is a mask (`Carried`), and `attend` gets it as one. What a model asks for and `attend`
does not do is refused by name.

Source: https://huggingface.co/docs/transformers/attention_interface
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from hitherto.attention import attend, attention_weights
from hitherto.errors import Unsupported, explain
from hitherto.integrations.carried import Carried, Sight
from hitherto.integrations.mask_functions import mask_of
from hitherto.integrations.tensor_masks import read
from hitherto.mask import Causal, Everything, Keys, Mask

REFUSED = {
    "indices": "keys chosen by an indexer",
    "block_indices": "blocks of keys chosen by an indexer",
    "sinks": "a sink for every query; `s_aux`, one for every head, is carried",
    "cu_seq_lens_q": "documents by their lengths; pass position_ids that begin again instead",
    "cu_seq_lens_k": "documents by their lengths; pass position_ids that begin again instead",
    "block_table": "a paged cache of continuous batching",
    "cache": "a paged cache of continuous batching",
    "head_mask": "weights of whole heads",
    "layer_head_mask": "weights of whole heads",
}
"""Keywords that change what attention computes, which we do not carry."""

EAGER = "hitherto builds masks from values: compile with fullgraph=False, or use sdpa"


def register(name: str = "hitherto") -> None:
    """Let transformers know `attn_implementation=name`.

    Carried exactly: causal, sliding, chunked and bidirectional masks, packed documents, prefixes
    and image blocks, 2-D padding, 4-D masks (bool, or additive: hidden where -inf or the smallest
    float, a bias elsewhere), dynamic, static and sliding caches, grouped heads, softcap, sinks,
    position biases, gradients, attention weights. A query that sees nothing, such as a pad, gets
    zeros.

    Args:
        name: what models will call it.
    Raises:
        Unsupported: when a model runs that asks for more, naming what.
        ImportError: without transformers.
    """
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError as error:
        raise ImportError(
            "this needs transformers 5: pip install 'hitherto[transformers]'"
        ) from error
    AttentionInterface.register(name, torch.compiler.disable(attention, reason=EAGER))
    AttentionMaskInterface.register(name, torch.compiler.disable(carried_mask, reason=EAGER))


def carried_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    use_vmap: bool = False,
    device: Any = "cpu",
    **_: Any,
) -> Tensor:
    """Return the mask that transformers describes, as an `AttentionMaskInterface` is asked.

    It is `Carried`, or eager's cells where a part of `mask_function` is a model's own.

    Args:
        batch_size: rows of the batch.
        q_length: number of queries.
        kv_length: number of key slots, filled or not.
        q_offset: position of the first query.
        kv_offset: position of the first key.
        mask_function: (batch, head, query, key) -> bool at absolute positions; causal if None.
        attention_mask: bool (batch, positions), False for padding.
        dtype: of the model's scores.
        use_vmap: whether the function must be mapped cell by cell.
        device: where the model expects a tensor.
    """
    from transformers.masking_utils import causal_mask_function, eager_mask, prepare_padding_mask

    function = mask_function or causal_mask_function
    q_start, stop = int(q_offset), max(int(q_offset) + q_length, kv_offset + kv_length)

    def cells() -> Tensor:
        return eager_mask(
            batch_size, q_length, kv_length, q_start, kv_offset, function, attention_mask, dtype,
            use_vmap=use_vmap, device=device,
        )  # fmt: skip

    mask = mask_of(function, stop)
    if mask is None:
        return cells()
    shown = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    k_pos = np.arange(kv_offset, kv_offset + kv_length) if kv_offset else None
    sight = Sight(mask=_without_pads(mask, shown), q_start=q_start, k_pos=k_pos)
    shape = batch_size, 1, q_length, kv_length
    return Carried(sight, cells, shape, dtype=dtype, device=device)


def attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads queries head_dim"],
    key: Float[Tensor, "batch kv_heads keys head_dim"],
    value: Float[Tensor, "batch kv_heads keys v_dim"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sliding_window: int | None = None,
    s_aux: Float[Tensor, " heads"] | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    output_attentions: bool | None = False,
    **asked: Any,
) -> tuple[Float[Tensor, "batch queries heads v_dim"], Tensor | None]:
    """Run one layer's attention, as an `AttentionInterface` is called.

    Args:
        module: the layer; its `is_causal` tells what no mask means.
        query: queries.
        key: keys.
        value: values.
        attention_mask: what `carried_mask` returned, a 4-D tensor, or None: everything, or causal
            in a causal layer of as many queries as keys.
        scaling: factor on the scores.
        dropout: of the weights; only 0 is carried.
        softcap: cap on the scores.
        sliding_window: what the mask already says.
        s_aux: a sink for every head.
        position_bias: added to the scores.
        is_causal: instead of the module's.
        output_attentions: also return the weights.
        asked: whatever else the model passes; see `REFUSED`.
    Raises:
        Unsupported: what cannot be carried, named.
    """
    _refuse(dropout, asked)
    query = query.expand(key.shape[0], -1, -1, -1)
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", None)
    shape = key.shape[0], query.shape[1], query.shape[2], key.shape[2]
    sight, added = (
        (_unmasked(causal, sliding_window, *shape[2:]), None)
        if attention_mask is None
        else read(attention_mask, shape)
    )
    biases = [bias for bias in (position_bias, added) if bias is not None]
    how = {
        "bias": sum(biases[1:], biases[0]) if biases else None, "scale": scaling,
        "softcap": softcap, "sinks": s_aux, "q_start": sight.q_start, "k_pos": sight.k_pos,
    }  # fmt: skip
    out = attend(query, key, value, sight.mask, **how)
    weights = attention_weights(query, key, sight.mask, **how) if output_attentions else None
    return out.transpose(1, 2).contiguous(), weights


def _unmasked(causal: bool | None, window: int | None, queries: int, keys: int) -> Sight:
    """Say what no mask means: where readings differ among the library's kernels, refuse."""
    if causal is False or (queries == 1 and window is None):
        return Sight(mask=Everything())
    if causal and queries == keys and (window is None or keys <= window):
        return Sight(mask=Causal())
    came = f"None for {queries} queries and {keys} keys, is_causal={causal}, window={window}"
    raise Unsupported(
        explain("attention_mask", "must say which keys each query sees", came,
                "pass a mask, or is_causal=False where everything is seen")
    )  # fmt: skip


def _refuse(dropout: float, asked: dict[str, Any]) -> None:
    if dropout:
        raise Unsupported(
            explain("dropout", "must be 0: attend has no dropout of the weights", dropout,
                    "set attention_dropout = 0 in the config, or use another implementation")
        )  # fmt: skip
    for name in REFUSED.keys() & asked.keys():
        if asked[name] is not None:
            raise Unsupported(
                explain(name, "is not carried by this attention implementation", REFUSED[name],
                        'load this model with attn_implementation="sdpa" or "eager"')
            )  # fmt: skip


def _without_pads(mask: Mask, shown: Tensor | None) -> Mask:
    if shown is None or bool(shown.all()):
        return mask
    return mask & Keys(shown.cpu().numpy())
