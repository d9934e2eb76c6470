"""FlashAttention-4 (`flash_attn.cute`): a mask_mod in CuTe DSL, its tensors, and block lists.

    True means          attend
    window_size_left, _right   l before, r after and itself: l + 1 + r (unused here)
    causal when q != k  bottom-right; a mask_mod speaks of row and column numbers instead
    block lists         as FlexAttention's: partial blocks ("mask_block") call the mask_mod, full
                        ones do not; of tile_m queries and tile_n keys of the kernel
    empty row           zeros

Emitted, not run: the package needs a GPU. The mask_mod comes as text, for the caller's own module:
CuTe DSL reads the source of the functions it compiles.

Source: https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/cute/README.md
"""

from dataclasses import dataclass
from typing import Any

from hitherto.lowering.flex import flex, varying
from hitherto.lowering.grid import Grid, refuse
from hitherto.lowering.mask_mod import INTERVALS, intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash4:
    """Arguments of `flash_attn.cute.interface.flash_attn_func` that say a mask."""

    mask_mod: str
    """Source of a `@cute.jit` function named `mask_mod`."""

    aux_tensors: list[Any]
    """int32 (batch or 1, heads or 1, queries): first key and last key + 1 of each interval."""

    mask_block_cnt: Any
    """int32 (batch or 1, heads or 1, query blocks): partial blocks of each query block."""

    mask_block_idx: Any
    """int32 (.., query blocks, key blocks): which."""

    full_block_cnt: Any
    """Likewise of full blocks."""

    full_block_idx: Any
    """Likewise of full blocks."""

    block_size: tuple[int, int]
    """Queries and keys of a block: tile_m and tile_n."""


def flash4(grid: Grid, *, block: tuple[int, int] = (128, 128), device: Any = None) -> Flash4:
    """Return the block lists and the mask_mod of a mask.

    Args:
        grid: the mask.
        block: tile_m and tile_n of the kernel.
        device: of the tensors.
    Raises:
        Unsupported: a row of more than 8 spans, for which the text would grow too long.
    """
    ends = intervals(grid.bound.spans)
    if ends is None:
        raise refuse("flash4", grid, None, f"a row may be at most {INTERVALS} ranges of keys",
                     "'flex'")  # fmt: skip
    import torch

    index = varying(grid.bound.index)
    tables = [torch.from_numpy(end[index]).to(device) for pair in ends for end in pair]
    made = flex(grid, block=block, device=device)
    return Flash4(
        mask_mod=_source(len(ends), index.shape), aux_tensors=tables, block_size=made.BLOCK_SIZE,
        mask_block_cnt=made.kv_num_blocks, mask_block_idx=made.kv_indices,
        full_block_cnt=made.full_kv_num_blocks, full_block_idx=made.full_kv_indices,
    )  # fmt: skip


def _source(count: int, axes: tuple[int, ...]) -> str:
    """Write the mask_mod: one pair of comparisons an interval."""
    at = ", ".join([f"{name}[0]" if size > 1 else "0"
                    for name, size in zip(("batch", "head"), axes, strict=True)])  # fmt: skip
    read = "utils.scalar_to_ssa(aux_tensors[{}][{}, m_idx[0]], cutlass.Int32)".format
    ends = [
        f"    {name}{j} = {read(2 * j + i, at)}\n"
        for j in range(count) for i, name in enumerate(("lo", "hi"))
    ]  # fmt: skip
    inside = [f"((n_idx >= lo{j}) & (n_idx < hi{j}))" for j in range(count)]
    return (
        "import cutlass\nimport cutlass.cute as cute\nfrom flash_attn.cute import utils\n\n\n"
        "@cute.jit\ndef mask_mod(batch, head, m_idx, n_idx, seqlen_info, aux_tensors):\n"
        + "".join(ends) + f"    return {' | '.join(inside) or 'n_idx < n_idx'}\n"
    )  # fmt: skip
