"""Tiles through torch's fused CPU kernel, whose log-sum-exp lets partial results be merged.

Shapes: q (tiles, heads, queries, head_dim), k and v (tiles, kv_heads, keys, head_dim or v_dim).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from hitherto.attention.terms import Terms, score_dtype
from hitherto.attention.tiles import Cells, Rows

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
INF = float("inf")


def forward(
    q: Tensor, k: Tensor, v: Tensor, cells: Cells, terms: Terms
) -> tuple[Float[Tensor, "tiles heads queries v_dim"], Float[Tensor, "tiles heads queries"]]:
    """Attend within each tile. A row that sees no key gives 0 and `lse = -inf`."""
    added = _added(cells, score_dtype(q.dtype))
    width = max(q.shape[-1], v.shape[-1])
    out, lse = _FORWARD(*_padded(width, q, k, v), 0.0, cells.causal,
                        attn_mask=added, scale=terms.scale)  # fmt: skip
    if added is not None:
        # The kernel reports 0 for such rows, which would count as one key of score 0.
        lse = lse.masked_fill((added == -INF).all(-1), -INF)
    return out[..., : v.shape[-1]], lse


def backward(
    rows: Rows, k: Tensor, v: Tensor, cells: Cells, terms: Terms
) -> tuple[Tensor, Tensor, Tensor, None]:
    """Return this tile's part of the gradients of q, k and v.

    The kernel recomputes weights from `rows.lse`, the lse of the whole row: so parts add up.
    """
    added = _added(cells, score_dtype(k.dtype))
    width = max(k.shape[-1], v.shape[-1])
    grad, q, k_, v_, out = _padded(width, rows.grad, rows.q, k, v, rows.out)
    dq, dk, dv = _BACKWARD(grad, q, k_, v_, out, rows.lse, 0.0, cells.causal,
                           attn_mask=added, scale=terms.scale)  # fmt: skip
    return dq[..., : k.shape[-1]], dk[..., : k.shape[-1]], dv[..., : v.shape[-1]], None


def _added(cells: Cells, dtype: torch.dtype) -> Tensor | None:
    """Return the mask as the kernel takes it: 0 or the bias where visible, -inf where hidden."""
    if cells.seen is None:
        return cells.bias
    if cells.bias is not None:
        return cells.bias.masked_fill(~cells.seen, -INF)
    return torch.zeros(cells.seen.shape, dtype=dtype).masked_fill_(~cells.seen, -INF)


def _padded(width: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Widen the last axis with zeros: the kernel wants one head size for q, k and v."""
    return tuple(pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in tensors)
