"""Attention as it is written on paper: dense, plain, and what every other backend must equal."""

import torch
from jaxtyping import Float
from torch import Tensor

from hitherto.attention.bias import tile
from hitherto.attention.grid import visible
from hitherto.attention.terms import Inputs, Terms, corner, score_dtype

INF = float("inf")


def run(
    inputs: Inputs, terms: Terms
) -> tuple[
    Float[Tensor, "batch heads queries v_dim"],
    Float[Tensor, "batch heads queries"],
]:
    """Compute attention with one queries x keys array of scores a head.

    Uses only differentiable torch operations, so `torch.func` transforms, double backward and
    float64 all work. Cost: O(heads * queries * keys) time and memory.
    """
    dtype = score_dtype(inputs.q.dtype)
    groups = inputs.q.shape[1] // inputs.k.shape[1]
    seen = visible(terms.mask, terms.grid).to(inputs.q.device)
    # A hidden number must not matter even if it is NaN, and 0 * NaN is NaN: so numbers that are not
    # finite are taken out here, and the rows that do see one are marked at the end.
    q, q_bad = _finite(inputs.q.to(dtype))
    k, k_bad = _finite(inputs.k.to(dtype).repeat_interleave(groups, 1))
    v, v_bad = _finite(inputs.v.to(dtype).repeat_interleave(groups, 1))

    scores = q @ k.mT * terms.scale
    if terms.softcap is not None:
        scores = terms.softcap * torch.tanh(scores / terms.softcap)
    if terms.form is not None:
        at = corner(terms.grid, *(torch.arange(n, device=q.device) for n in scores.shape[2:]))
        scores = scores + tile(terms.form, inputs.bias, at, dtype)
    scores = scores.masked_fill(~seen, -INF)
    empty = (scores == -INF).all(-1, keepdim=True)
    scores = scores.masked_fill(empty, 0.0)
    if inputs.sinks is not None:
        sink = inputs.sinks.to(dtype)[None, :, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sink], -1)
    weights = torch.softmax(scores, -1)[..., : v.shape[-2]].masked_fill(empty, 0.0)
    lse = torch.logsumexp(scores, -1).masked_fill(empty[..., 0], -INF)

    bad = q_bad.unsqueeze(-1) | (k_bad | v_bad).unsqueeze(-2)
    spoilt = (seen & bad).any(-1)
    out = (weights @ v).masked_fill(spoilt.unsqueeze(-1), float("nan"))
    return out.to(inputs.q.dtype), lse.masked_fill(spoilt, float("nan"))


def _finite(x: Tensor) -> tuple[Tensor, Tensor]:
    """Put 0 for what is not finite; say which vectors held such a number."""
    good = torch.isfinite(x)
    return torch.where(good, x, 0.0), ~good.all(-1)
