"""Hugging Face transformers (5.x): 2-D and 4-D masks, mask functions, packed position ids.

    True means          attend; a 2-D mask has 1 for tokens and 0 for padding
    sliding_window=w    w keys with the query itself; flash-attn is then given w - 1
                        (https://github.com/huggingface/transformers/issues/39408)
    causal when q != k  by position: the last query is the last key
    2-D mask            (batch, keys); the model adds its own causal or window mask
    4-D mask            (batch, heads or 1, queries, keys); taken as it is: bool for sdpa; for eager
                        a float that is *added*, where a bool would be added as 0 and 1
    position_ids        (batch, keys); a step other than +1 begins another document, in which the
                        model's own mask begins again; read without a 2-D mask and without a cache
                        only, and a model makes itself a cache unless `use_cache=False`
    empty row           zeros with sdpa; with eager, which fills in the smallest float, the mean of
                        every value: refused unless accepted
    mask function       is asked about head 0 only, whatever the model has
    flash-attn          gets the 2-D mask only: any other mask function is dropped in silence

Source: https://github.com/huggingface/transformers/blob/main/src/transformers/masking_utils.py
"""

from typing import Any, Literal

import numpy as np

from hitherto.lowering.arrays import additive, dense, four_axes
from hitherto.lowering.empty import Empty, refuse_empty_rows
from hitherto.lowering.flex import varying
from hitherto.lowering.grid import Grid, refuse, require_one_head
from hitherto.lowering.mask_mod import MaskMod, mask_mod
from hitherto.lowering.ranges import row_ranges, shown_keys
from hitherto.mask import (
    And,
    Band,
    Causal,
    Everything,
    Keys,
    Mask,
    Or,
    Segments,
    Window,
    bind_batch,
)

Form = Literal["2d", "position_ids", "4d", "mask_function"]
FORMS: tuple[Form, ...] = ("2d", "position_ids", "4d")


def transformers(
    grid: Grid,
    *,
    form: Form | None = None,
    base: Mask | None = None,
    attn_implementation: Literal["sdpa", "eager"] = "sdpa",
    empty: Empty = "refuse",
    device: Any = None,
    dtype: Any = None,
) -> Any:
    """Return keyword arguments of a model's `forward` that make it use exactly this mask.

    Args:
        grid: the mask.
        form: "2d" is {"attention_mask": int64 (batch, keys)}, or {} where the model's own mask is
            enough; "position_ids" is {"position_ids": int64 (batch, keys), "use_cache": False} of
            packed documents; "4d" is {"attention_mask": (batch or 1, heads or 1, queries, keys)}.
            "mask_function" returns the function (batch, head, query position, key position) ->
            bool itself, for `and_mask_function` or an `AttentionMaskInterface`. Unless given, the
            first of "2d", "position_ids", "4d" that is exact.
        base: the mask that the model applies by itself: `Causal()` unless given. Give
            `Causal() & Window(config.sliding_window)` for layers that slide, `Everything()` for an
            encoder. 4-D masks replace it.
        attn_implementation: of the model.
        empty: with eager, "refuse" rows that see no key, or accept their "mean".
        device: of the tensors.
        dtype: of the additive mask of eager, float32 unless given.
    Raises:
        Unsupported: a form that cannot say the mask; empty rows under eager, unless accepted.
    """
    if form == "mask_function":
        return _mask_function(grid, device)
    if attn_implementation == "eager":
        refuse_empty_rows("transformers", grid, empty)
    base = Causal() if base is None else base
    for name in FORMS if form is None else (form,):
        said, cell = {"2d": _padding, "position_ids": _packed, "4d": _whole}[name](
            grid, base, attn_implementation, dtype
        )
        if said is not None:
            return {key: x if x is False else x.to(device) for key, x in said.items()}
    raise refuse(
        "transformers", grid, cell, f"form={form!r} adds to what the model hides, {base}, "
        "and cannot say more", "form='4d'",
    )  # fmt: skip


def _mask_function(grid: Grid, device: Any) -> MaskMod:
    require_one_head(
        "transformers", grid, "a mask function is asked about head 0 only", "form='4d'"
    )
    seen, start = mask_mod(grid.bound.spans, varying(grid.bound.index), device), grid.q_start

    def function(batch_idx: Any, head_idx: Any, q_idx: Any, kv_idx: Any) -> Any:
        return seen(batch_idx, head_idx, q_idx - start, kv_idx)

    return function


def _padding(grid: Grid, base: Mask, *_: Any) -> tuple[dict[str, Any] | None, Any]:
    """Hide keys from a whole batch row: those that none of its queries sees."""
    import torch

    own = bind_batch(base, grid.q_len, grid.k_len, grid.q_start)
    cell = grid.first_difference(own)
    if cell is None and not grid.offset:
        return {}, None
    shown = np.stack([shown_keys(spans) for spans in grid.bound.spans])[grid.bound.index[:, 0]]
    wanted = base & Keys(shown)
    cell = grid.first_difference(wanted)
    if cell is not None or grid.offset:
        return None, cell
    return {"attention_mask": torch.from_numpy(shown.astype(np.int64))}, None


def _packed(grid: Grid, base: Mask, *_: Any) -> tuple[dict[str, Any] | None, Any]:
    """Cut documents wherever no later query sees an earlier key."""
    import torch

    if grid.q_len != grid.k_len or grid.q_start or not grid.q_len or not _by_distance(base):
        return None, grid.first_difference(base)
    ids = np.stack([_documents(spans) for spans in grid.bound.spans])[grid.bound.index[:, 0]]
    cell = grid.first_difference(base & Segments(ids))
    if cell is not None:
        return None, cell
    at = np.arange(grid.k_len)
    new = np.diff(ids, axis=1, prepend=-1) > 0
    position = at - np.maximum.accumulate(np.where(new, at, 0), axis=1)
    return {"position_ids": torch.from_numpy(position), "use_cache": False}, None


def _by_distance(mask: Mask) -> bool:
    """Tell whether a mask looks at `q - k` alone, so that it may begin again anywhere."""
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b):
            return _by_distance(a) and _by_distance(b)
    return isinstance(mask, (Causal, Window, Band, Everything))


def _documents(spans: Any) -> np.ndarray:
    row, lo, _ = row_ranges(spans)
    first = np.full(spans.q_len, spans.k_len)
    np.minimum.at(first, row, lo)
    oldest = np.minimum.accumulate(first[::-1])[::-1]
    return np.cumsum(oldest >= np.arange(spans.q_len)) - 1


def _whole(grid: Grid, base: Mask, implementation: str, dtype: Any) -> tuple[dict[str, Any], Any]:
    if implementation == "eager":
        import torch

        kind = torch.float32 if dtype is None else dtype
        mask = additive(grid, dtype=kind, hidden=torch.finfo(kind).min)
    else:
        mask = dense(grid, library="torch")
    return {"attention_mask": four_axes(mask)}, None
