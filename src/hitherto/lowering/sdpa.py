"""torch's own attention: scaled_dot_product_attention, MultiheadAttention, Transformer, CausalBias.

    who                                  True means   causal when q != k          empty row
    scaled_dot_product_attention         attend       top-left (`is_causal`)      zeros
    nn.MultiheadAttention, Transformer   hidden       none: a mask is given       zeros; NaN where
                                                                                  weights are asked
                                                                                  for, and on the
                                                                                  fast path of
                                                                                  TransformerEncoder
    nn.attention.bias.CausalBias         -            by its name                 NaN, so refused

None of the three has a window. `is_causal=True` lets query row i see keys `0 .. i` whatever the
lengths (https://github.com/pytorch/pytorch/issues/108108): for queries that continue a cache it is
wrong, and here it is used only where row i *is* position i. The polarity of MultiheadAttention is
the opposite of the function it calls (https://github.com/pytorch/pytorch/issues/120668).
"""

import warnings
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from hitherto.lowering import ranges
from hitherto.lowering.arrays import dense, four_axes
from hitherto.lowering.empty import require_rows
from hitherto.lowering.grid import Grid, refuse, require_exact
from hitherto.mask import Band, Batch, Everything, Spans, equal
from hitherto.mask.spans import full

Array = np.ndarray


def sdpa(grid: Grid, *, device: Any = None) -> dict[str, Any]:
    """Return the arguments of `scaled_dot_product_attention`: the smallest that are exact.

    That is nothing, `is_causal`, or a bool tensor `attn_mask` (batch or 1, heads or 1, queries or
    1, keys), True = may attend.
    """
    if grid.first_difference(Everything()) is None:
        return {"attn_mask": None, "is_causal": False}
    if grid.first_difference(Band(None, -grid.q_start)) is None:
        return {"attn_mask": None, "is_causal": True}
    same = all(_is_flat(spans) for spans in grid.bound.spans)
    if same:
        grid = Grid(
            mask=grid.mask, k_len=grid.k_len, q_start=grid.q_start, q_len=1,
            bound=Batch(grid.bound.index, tuple(
                spans.rows(grid.q_start, grid.q_start + 1) for spans in grid.bound.spans)),
        )  # fmt: skip
    mask = dense(grid, library="torch", device=device)
    return {"attn_mask": four_axes(mask), "is_causal": False}


def mha(
    grid: Grid,
    *,
    num_heads: int | None = None,
    batch: int | None = None,
    need_weights: bool = False,
    device: Any = None,
) -> dict[str, Any]:
    """Return `attn_mask`, `key_padding_mask` and `need_weights` of `nn.MultiheadAttention`.

    `attn_mask` is None, (queries, keys), or (batch * heads, queries, keys); `key_padding_mask` is
    None or (batch, keys). **True hides.** In `nn.Transformer` the same two tensors are `src_mask`
    and `src_key_padding_mask` (or `tgt_`, `memory_`).

    Args:
        grid: the mask.
        num_heads: heads of the module, needed where rows of the batch differ by more than padding.
        batch: rows of the batch, needed where heads differ and the mask has no batch axis.
        need_weights: whether the weights are wanted, too: then an empty row is NaN, and refused.
            Give True for `nn.TransformerEncoder`, whose fast path at inference makes NaN as well.
        device: of the tensors.
    Raises:
        Unsupported: an empty row with `need_weights`; a batch axis without `num_heads`.
    """
    if need_weights:
        require_rows("mha", grid, "with need_weights a row that sees no key is NaN")
    shared, padding = _padding(grid)
    if shared is None and grid.batch * grid.heads == 1:
        shared = grid.bound.spans[0]
    result: dict[str, Any] = {"attn_mask": None, "key_padding_mask": None,
                              "need_weights": need_weights}  # fmt: skip
    import torch

    if shared is not None:
        if not _is_full(shared):
            grid.require_room("mha", grid.q_len * grid.k_len)
            result["attn_mask"] = torch.from_numpy(~ranges.dense(shared)).to(device)
        if padding is not None and not padding.all():
            result["key_padding_mask"] = torch.from_numpy(~padding).to(device)
        return result
    heads = num_heads or grid.heads
    if heads == 1 or grid.heads not in (1, heads):
        raise refuse(
            "mha", grid, grid.first_difference(grid.bound.spans[0]),
            "rows of the batch or heads differ by more than padding, which takes a mask of shape "
            f"(batch * heads, queries, keys), and num_heads={num_heads}",
            "num_heads= of the module",
        )  # fmt: skip
    rows = batch or grid.batch
    grid.require_room("mha", rows * heads * grid.q_len * grid.k_len)
    seen = torch.from_numpy(~dense(grid)).to(device)
    result["attn_mask"] = seen.expand(rows, heads, -1, -1).flatten(0, 1)
    return result


def attention_bias(grid: Grid) -> Any:
    """Return `causal_upper_left` or `causal_lower_right` of these lengths.

    Raises:
        Unsupported: any other mask; a lower-right one with rows that see no key (torch gives NaN).
    """
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    if grid.first_difference(Band(None, -grid.q_start)) is None:
        return causal_upper_left(grid.q_len, grid.k_len)
    require_exact(
        "attention_bias", grid, Band(None, grid.offset),
        "it has causal from the top-left corner and causal from the bottom-right corner only",
    )  # fmt: skip
    require_rows("attention_bias", grid, "causal_lower_right is NaN in rows that see no key")
    with warnings.catch_warnings():
        return causal_lower_right(grid.q_len, grid.k_len)


def _is_flat(spans: Spans) -> bool:
    """Tell whether every row sees the same keys."""
    return spans.starts.size == 1 and not (spans.s.any() or spans.t.any())


def _is_full(spans: Spans) -> bool:
    return equal(spans, full(*spans.grid)).value is True


def _padding(grid: Grid) -> tuple[Spans | None, Array | None]:
    """Split a mask that differs between batch rows into one for all and keys that are hidden.

    Returns (None, None) where that is impossible. The keys that a batch row shows to any query are
    its least padding; what any batch row shows is the least shared mask: if these two do not give
    the mask back, none do.
    """
    if grid.heads > 1 or grid.batch == 1:
        return None, None
    union = reduce(or_, grid.bound.spans)
    shown = [ranges.shown_keys(spans) for spans in grid.bound.spans]
    if any(
        ranges.only_keys(union, keys) != spans
        for keys, spans in zip(shown, grid.bound.spans, strict=True)
    ):
        return None, None
    return union, np.stack(shown)[grid.bound.index[:, 0]]
