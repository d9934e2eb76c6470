"""Tiles by plain torch, for what the fused kernel cannot do: softcap, gradients of bias and lse.

Shapes as in `fused`: q (tiles, heads, queries, head_dim), k, v (tiles, kv_heads, keys, ...).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from hitherto.attention.terms import Terms, score_dtype
from hitherto.attention.tiles import Cells, Rows

INF = float("inf")
MOST_SCORES = 1 << 22
"""Scores held at once."""


def forward(q: Tensor, k: Tensor, v: Tensor, cells: Cells, terms: Terms) -> tuple[Tensor, Tensor]:
    """Attend within each tile, in float32 or better. A row that sees no key gives 0 and -inf."""
    dtype, groups = score_dtype(q.dtype), q.shape[1] // k.shape[1]
    out = q.new_empty((*q.shape[:3], v.shape[3]), dtype=dtype)
    lse = q.new_empty(q.shape[:3], dtype=dtype)
    for tiles, kv, heads in _pieces(q, k):
        scores, _ = _scores(q[tiles, heads], k[tiles, kv], cells, terms, heads)
        top = scores.amax(-1, keepdim=True)
        top = top.masked_fill(top == -INF, 0.0)
        weights = (scores - top).exp_()
        total = weights.sum(-1, keepdim=True)
        part = _by_kv(weights, groups) @ v[tiles, kv].to(dtype)
        out[tiles, heads] = part.view(out[tiles, heads].shape) / total.masked_fill(total == 0, 1.0)
        lse[tiles, heads] = (total.log() + top)[..., 0]
    return out, lse


def backward(
    rows: Rows, k: Tensor, v: Tensor, cells: Cells, terms: Terms
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return this tile's part of the gradients of q, k, v and the bias (heads, queries, keys)."""
    q, dtype, groups = rows.q, score_dtype(k.dtype), rows.q.shape[1] // k.shape[1]
    dq, dk, dv = (torch.empty_like(x, dtype=dtype) for x in (q, k, v))
    dbias = None
    if cells.bias is not None:
        dbias = q.new_zeros((q.shape[1], q.shape[2], k.shape[2]), dtype=dtype)
    inner = (rows.grad.to(dtype) * rows.out.to(dtype)).sum(-1)
    inner = inner if rows.grad_lse is None else inner - rows.grad_lse
    for tiles, kv, heads in _pieces(q, k):
        scores, slope = _scores(q[tiles, heads], k[tiles, kv], cells, terms, heads)
        weights = (scores - rows.lse[tiles, heads, :, None]).exp_()
        grad = _by_kv(rows.grad[tiles, heads].to(dtype), groups)
        dv[tiles, kv] = _by_kv(weights, groups).mT @ grad
        pulled = (grad @ v[tiles, kv].to(dtype).mT).view(weights.shape)
        dscores = weights * (pulled - inner[tiles, heads, :, None])
        if dbias is not None:
            dbias[heads] += dscores.sum(0)
        dscores = _by_kv(dscores if slope is None else dscores * slope, groups) * terms.scale
        dq[tiles, heads] = (dscores @ k[tiles, kv].to(dtype)).view(dq[tiles, heads].shape)
        dk[tiles, kv] = dscores.mT @ _by_kv(q[tiles, heads].to(dtype), groups)
    return dq, dk, dv, dbias


def _scores(
    q: Tensor, k: Tensor, cells: Cells, terms: Terms, heads: slice
) -> tuple[Tensor, Tensor | None]:
    """Return scores (tiles, heads, queries, keys) and, under a softcap, its slope."""
    dtype, slope = score_dtype(q.dtype), None
    by_kv = _by_kv(q.to(dtype), q.shape[1] // k.shape[1])
    scores = (by_kv @ k.to(dtype).mT).view(*q.shape[:3], k.shape[2]) * terms.scale
    if terms.softcap is not None:
        bent = torch.tanh(scores / terms.softcap)
        scores, slope = bent * terms.softcap, 1 - bent * bent
    if cells.bias is not None:
        scores = scores + (cells.bias[:, heads] if cells.bias.shape[1] > 1 else cells.bias)
    if cells.seen is not None:
        scores = scores.masked_fill(~cells.seen, -INF)
    return scores, slope


def _by_kv(x: Tensor, groups: int) -> Tensor:
    """Lay the query heads that share a kv head out as further rows."""
    tiles, heads, rows, width = x.shape
    return x.reshape(tiles, heads // groups, groups * rows, width)


def _pieces(q: Tensor, k: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """Cut a job into (tiles, kv heads, heads) so that few scores are held at once."""
    tiles, heads, rows, _ = q.shape
    kv_heads, keys, groups = k.shape[1], k.shape[2], heads // k.shape[1]
    kv = max(1, min(kv_heads, MOST_SCORES // (groups * rows * keys)))
    step = max(1, MOST_SCORES // (heads * rows * keys))
    for t in range(0, tiles, step):
        for h in range(0, kv_heads, kv):
            yield slice(t, t + step), slice(h, h + kv), slice(h * groups, (h + kv) * groups)
