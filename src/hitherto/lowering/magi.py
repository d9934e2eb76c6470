"""MagiAttention: slices of queries x keys, each full or cut along a diagonal.

    True means          there is no mask tensor; what no slice holds is hidden
    types               full; causal: the slice's last query sees its last key (bottom-right);
                        inv_causal: its first query sees its first key (top-left); bi_causal: both
    window, causal      in the slices alone: there is no window argument
    batch, heads        no batch axis: sequences are packed, batch rows one after another
                        (https://github.com/SandAI-org/MagiAttention/issues/154); no head axis
    empty row           a row that no slice holds; what it gives is not documented

Slices must not overlap. A span of keys whose ends move with the row, or stand still, *is* a slice,
so every mask is exact; one without spans takes a slice a run of keys.

Source: https://github.com/SandAI-org/MagiAttention, magi_attention/common/enum.py
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hitherto.lowering.arrays import Library, placed
from hitherto.lowering.empty import refuse_undocumented_rows
from hitherto.lowering.grid import Grid, require_one_head
from hitherto.mask.canonical import canonical

FULL, CAUSAL, INV_CAUSAL, BI_CAUSAL = range(4)
"""MagiAttention's own numbers for the types of a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MagiSlices:
    """Arguments of `flex_flash_attn_func`."""

    q_ranges: Any
    """int32 (slices, 2): queries `[start, stop)`, numbered from 0 over the packed batch."""

    k_ranges: Any
    """int32 (slices, 2): keys `[start, stop)`, likewise."""

    attn_type_map: Any
    """int32 (slices,): 0 full, 1 causal, 2 inv_causal, 3 bi_causal."""


def magi(
    grid: Grid, *, empty: str = "refuse", library: Library = "torch", device: Any = None
) -> MagiSlices:
    """Return the slices of a mask, one a span. O(spans), or O(rows) where the mask has none.

    Args:
        grid: the mask.
        empty: "refuse" rows that see no key, or "accept" what the kernel leaves there.
        library: of the arrays.
        device: of torch tensors.
    Raises:
        Unsupported: heads that differ; empty rows, unless accepted.
    """
    require_one_head("magi", grid, "slices have no head axis: all heads share one mask")
    refuse_undocumented_rows("magi", grid, empty)
    parts = []
    for b in range(grid.batch):
        spans = canonical(grid.bound[b, 0], keep_spans=True)
        run = np.repeat(np.arange(spans.starts.size), np.diff(spans.offsets))
        first, stop = spans.starts[run], spans.stops[run]
        q = np.stack([first, stop], 1) - spans.q_start + b * grid.q_len
        k = np.stack([spans.a + spans.s * first, spans.b + spans.t * (stop - 1)], 1)
        parts.append((q, k + b * grid.k_len, spans.t + 2 * spans.s))
    q, k, kind = (
        placed(np.concatenate(each).astype(np.int32), library, device)
        for each in zip(*parts, strict=True)
    )
    return MagiSlices(q_ranges=q, k_ranges=k, attn_type_map=kind)
