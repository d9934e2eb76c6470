"""xFormers 0.0.35: the classes of `xformers.ops.fmha.attn_bias`.

    True means          a class materialises as an additive bias: 0 attends, -inf hides
    make_local_attention(w)   causal, w keys with the query itself
    LocalAttentionFromBottomRightMask(l, r)   l before, r after and itself: l + 1 + r
    causal when q != k  the class name says: ...FromBottomRight... or from the top-left corner
    packed              BlockDiagonal...: one batch row, sequences one after another; PaddedKeys,
                        GappyKeys: keys in slots
    empty row           NaN or an error (https://github.com/facebookresearch/xformers/issues/722),
                        so refused

HEAD re-exports these classes from another package; 0.0.35 is the last release that holds them.

Source: https://facebookresearch.github.io/xformers/components/ops.html
"""

import numpy as np

from hitherto.lowering.call import Call
from hitherto.lowering.empty import refuse_empty_rows
from hitherto.lowering.grid import Grid
from hitherto.lowering.packing import Packing, Rows, no_packing, pieces, slots, whole

HOME = "xformers.ops.fmha.attn_bias."


def xformers(grid: Grid) -> Call | None:
    """Return the class to build and its arguments; call it to build it. None is xFormers' no mask.

    A `BlockDiagonal...` class is for queries (1, batch * queries, heads, head_dim), batch rows one
    after another, tokens that belong to nobody included.

    Raises:
        Unsupported: heads that differ, rows with gaps, pieces under different windows, empty rows.
    """
    refuse_empty_rows("xformers", grid, "refuse")
    rows = Rows.of("xformers", grid)
    found, cell = whole(rows)
    if found is not None:
        return _plain(found, grid)
    if _is_causal(whole(rows, "top-left")[0]):
        return Call(name=f"{HOME}LowerTriangularMask")
    for cut, say in ((pieces, _packed), (slots, _padded)):
        found, at = cut(rows)
        if found is not None and (call := say(found, grid)) is not None:
            return call
        cell = cell if found is not None else at
    found, _ = pieces(rows, "top-left")
    if found is not None and (call := _packed(found, grid)) is not None:
        return call
    raise no_packing("xformers", grid, rows, cell, "bottom-right")


def _is_causal(found: Packing | None) -> bool:
    return found is not None and found.right == 0 and found.left is None


def _plain(found: Packing, grid: Grid) -> Call | None:
    """Say a mask of whole sequences, counted from the bottom-right corner."""
    far = grid.q_len + grid.k_len
    match found.left, found.right:
        case None, None:
            return None
        case None, 0:
            corner = "" if grid.q_len == grid.k_len else "FromBottomRight"
            return Call(name=f"{HOME}LowerTriangular{corner}Mask")
        case left, 0:
            return Call(
                name=f"{HOME}LowerTriangularFromBottomRightMask",
                then=("make_local_attention", {"window_size": left + 1}),
            )
    sides = {"window_left": found.left, "window_right": found.right}
    return Call(
        name=f"{HOME}LocalAttentionFromBottomRightMask",
        arguments={side: far if n is None else n for side, n in sides.items()},
    )


def _packed(found: Packing, grid: Grid) -> Call | None:
    """Say pieces that follow one another; None where their window has two sides."""
    if found.right not in (None, 0) or (found.right is None and found.left is not None):
        return None
    total = grid.batch * grid.k_len
    starts = [*found.k_starts.tolist(), total]
    gap = starts != [0, *found.k_stops.tolist()]
    if gap and found.left is None and found.corner == "bottom-right":
        kind = "" if found.right is None else "CausalWithOffset"
        return Call(name=f"{HOME}BlockDiagonal{kind}GappyKeysMask.from_seqlens", arguments={
            "q_seqlen": found.q_lens.tolist(), "kv_seqstarts": starts,
            "kv_seqlen": found.k_lens.tolist()})  # fmt: skip
    q, k = (np.diff(cut).tolist() for cut in found.contiguous(total))
    bottom = found.corner == "bottom-right" and q != k
    then = None
    if found.left is not None:
        then = (f"make_local_attention{'_from_bottomright' if bottom else ''}",
                {"window_size": found.left + 1})  # fmt: skip
    elif found.right == 0:
        then = (f"make_causal{'_from_bottomright' if bottom else ''}", {})
    return Call(
        name=f"{HOME}BlockDiagonalMask.from_seqlens",
        arguments={"q_seqlen": q, "kv_seqlen": k}, then=then,
    )  # fmt: skip


def _padded(found: Packing, grid: Grid) -> Call | None:
    """Say batch rows whose keys begin at their slot, under a window with two sides."""
    if (found.k_starts != np.arange(grid.batch) * grid.k_len).any():
        return None
    far = grid.q_len + grid.k_len
    return Call(
        name=f"{HOME}BlockDiagonalLocalAttentionPaddedKeysMask.from_seqlens_local",
        arguments={
            "q_seqlen": found.q_lens.tolist(), "kv_padding": grid.k_len,
            "kv_seqlen": found.k_lens.tolist(),
            "window_left": far if found.left is None else found.left,
            "window_right": far if found.right is None else found.right,
        },
    )  # fmt: skip
