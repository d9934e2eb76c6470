"""flash-attn 2 and 3, and torch's `varlen_attn`, which calls the same kernels.

    True means          there is no mask tensor (https://github.com/Dao-AILab/flash-attention/issues/352)
    window_size=(l, r)  a query sees l keys before and r after itself: l + 1 + r; -1 is no limit
    causal when q != k  bottom-right since 2.1: the last query sees the last key
    packed              cu_seqlens cut queries and keys into pieces; each piece has its own corner
    cache_leftpad       first key of a cache slot; cache_seqlens is one past its last
    empty row           zeros

Causal is `window_size=(l, 0)`; `causal=True` with `(-1, -1)` is the same as `(-1, 0)`. Before 2.1
the corner was top-left: the README says how to tell. torch's `varlen_attn` has no `causal`: it
is `window_size=(-1, 0)` there.

Source: https://github.com/Dao-AILab/flash-attention#how-to-use-flashattention
"""

from typing import Any, Literal

import numpy as np

from hitherto.lowering.arrays import Library, placed
from hitherto.lowering.call import Call
from hitherto.lowering.grid import Grid
from hitherto.lowering.packing import (
    Packing,
    Rows,
    no_packing,
    packing,
    pieces,
    slots,
    whole,
)

Array = np.ndarray


def flash(
    grid: Grid,
    *,
    form: Literal["whole", "varlen", "kvcache"] | None = None,
    library: Library = "torch",
    device: Any = None,
) -> Call:
    """Return the function of flash-attn to call and the arguments that say the mask.

    Args:
        grid: the mask.
        form: "whole" is `flash_attn_func` (causal, window); "kvcache" `flash_attn_with_kvcache`
            (also `cache_seqlens`, `cache_leftpad` of each batch row); "varlen"
            `flash_attn_varlen_func`, with queries and keys packed: batch rows one after another,
            tokens that belong to nobody included. Unless given, the first of the three that is
            exact.
        library: of the int32 arrays.
        device: of torch tensors.
    Raises:
        Unsupported: heads that differ, rows with gaps, or pieces under different windows.
    """
    rows = Rows.of("flash", grid)
    cell = 0, 0
    for name, cut in {"whole": whole, "kvcache": slots, "varlen": pieces}.items():
        if form in (None, name):
            found, cell = cut(rows)
            if found is not None:
                said = _said(grid, found, name, library, device)
                return Call(name=f"flash_attn.{_FUNCTIONS[name]}", arguments=said)
    raise no_packing("flash", grid, rows, cell, "bottom-right")


_FUNCTIONS = {
    "whole": "flash_attn_func",
    "kvcache": "flash_attn_with_kvcache",
    "varlen": "flash_attn_varlen_func",
}


def _said(grid: Grid, found: Packing, form: str, library: Library, device: Any) -> dict[str, Any]:
    if form == "varlen":
        return _lengths(grid, found, library, device, "cu_seqlens", "max_seqlen") | _window(found)
    if form == "whole":
        return _window(found)
    first = np.arange(grid.batch) * grid.k_len
    lengths = {"cache_seqlens": found.k_stops - first, "cache_leftpad": found.k_starts - first}
    if not lengths["cache_leftpad"].any():
        del lengths["cache_leftpad"]
    return _window(found) | {
        name: placed(x.astype(np.int32), library, device) for name, x in lengths.items()
    }


def varlen(grid: Grid, *, device: Any = None) -> dict[str, Any]:
    """Return the arguments of `torch.nn.attention.varlen.varlen_attn`: pieces and one window.

    Raises:
        Unsupported: heads that differ, rows with gaps, or pieces under different windows.
    """
    found = packing("varlen", grid)
    window = tuple(-1 if side is None else side for side in (found.left, found.right))
    lengths = _lengths(grid, found, "torch", device, "cu_seq", "max")
    return lengths | {"window_size": window}


def _window(found: Packing) -> dict[str, Any]:
    left = -1 if found.left is None else found.left
    if found.right == 0:
        return {"causal": True, "window_size": (left, 0 if found.left is not None else -1)}
    return {"causal": False, "window_size": (left, -1 if found.right is None else found.right)}


def _lengths(
    grid: Grid, found: Packing, library: Library, device: Any, cu: str, longest: str
) -> dict[str, Any]:
    q, k = found.contiguous(grid.batch * grid.k_len)
    return {
        f"{cu}_q": placed(q, library, device), f"{cu}_k": placed(k, library, device),
        f"{longest}_q": int(np.diff(q).max(initial=0)),
        f"{longest}_k": int(np.diff(k).max(initial=0)),
    }  # fmt: skip
