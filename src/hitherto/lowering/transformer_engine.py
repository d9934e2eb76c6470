"""Transformer Engine (PyTorch): a mask type, a window, a tensor, or packed sequences.

    True means          **masked out**, in every tensor (since 1.7, says the README)
    window_size=(l, r)  l keys before and r after a query, itself too: l + 1 + r; -1 is no limit;
                        counted from the bottom-right corner
    causal when q != k  "causal" top-left, "causal_bottom_right" bottom-right
    padding_*           the same for every piece of packed sequences (qkv_format="thd")
    arbitrary           a tensor; the unfused path fills hidden scores with -10000
    empty row           becomes the mean of every value, by that fill: refused unless accepted

Source: https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/pytorch.html
(DotProductAttention); https://github.com/NVIDIA/TransformerEngine/issues/1197
"""

from typing import Any

import numpy as np

from hitherto.lowering.arrays import Library, dense, four_axes, placed
from hitherto.lowering.empty import Empty, refuse_empty_rows
from hitherto.lowering.grid import Grid
from hitherto.lowering.outer import outer
from hitherto.lowering.packing import Corner, Packing, Rows, no_packing, pieces, whole


def transformer_engine(
    grid: Grid,
    *,
    packed: bool = False,
    empty: Empty = "refuse",
    library: Library = "torch",
    device: Any = None,
) -> dict[str, Any]:
    """Return the arguments of `DotProductAttention.forward` that say a mask.

    Args:
        grid: the mask.
        packed: whether queries and keys are packed (qkv_format="thd"), batch rows one after
            another: then `cu_seqlens_q`, `cu_seqlens_kv` and a "padding" type, or a refusal.
            Otherwise a type without lengths, or "arbitrary" with a tensor.
        empty: "refuse" rows that see no key, or accept their "mean".
        library: of the arrays.
        device: of torch tensors.
    Raises:
        Unsupported: empty rows, unless accepted; with `packed`, a mask that is not a packing.
    """
    refuse_empty_rows("transformer_engine", grid, empty)
    if packed:
        return _packed(grid, library, device)
    if (grid.bound.index == grid.bound.index[0, 0]).all() and _has_ranges(grid):
        rows = Rows.of("transformer_engine", grid)
        for corner in CORNERS:
            said = _type(whole(rows, corner)[0])
            if said is not None:
                return said
    grid.require_room("transformer_engine")
    hidden = placed(four_axes(~dense(grid)), library, device)
    return {"attn_mask_type": "arbitrary", "attention_mask": hidden}


CORNERS: tuple[Corner, ...] = ("bottom-right", "top-left")


def _type(found: Packing | None) -> dict[str, Any] | None:
    """Name the type and window of a packing; None where there is no such type."""
    if found is None:
        return None
    window = tuple(-1 if side is None else side for side in (found.left, found.right))
    square = (found.q_lens == found.k_lens).all()
    if found.corner == "top-left" and window != (-1, 0):
        return None
    if found.right != 0:
        return {"attn_mask_type": "no_mask", "window_size": window}
    corner = "" if found.corner == "top-left" or square else "_bottom_right"
    return {"attn_mask_type": f"causal{corner}", "window_size": window}


def _packed(grid: Grid, library: Library, device: Any) -> dict[str, Any]:
    rows, cell = Rows.of("transformer_engine", grid), (0, 0)
    for cut in (whole, pieces):
        for corner in CORNERS:
            found, at = cut(rows, corner)
            said = _type(found)
            if found is None or said is None:
                cell = at if corner == "bottom-right" else cell
                continue
            kind = said["attn_mask_type"]
            said["attn_mask_type"] = "padding" if kind == "no_mask" else f"padding_{kind}"
            q, k = found.contiguous(grid.batch * grid.k_len)
            lengths = {"cu_seqlens_q": q, "cu_seqlens_kv": k}
            longest = {"max_seqlen_q": int(np.diff(q).max(initial=0)),
                       "max_seqlen_kv": int(np.diff(k).max(initial=0))}  # fmt: skip
            return (
                said | longest | {name: placed(x, library, device) for name, x in lengths.items()}
            )
    raise no_packing("transformer_engine", grid, rows, cell, "bottom-right")


def _has_ranges(grid: Grid) -> bool:
    return all(outer(spans) == spans for spans in grid.bound.spans)
