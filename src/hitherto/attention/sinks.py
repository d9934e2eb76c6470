"""Sinks: one more logit a head in the denominator of each row, with no value."""

import torch
from torch import Tensor

from hitherto.attention.terms import Inputs
from hitherto.attention.tiles import INF


def with_sinks(lse: Tensor, sinks: Tensor) -> Tensor:
    """Let sinks join the denominator of rows that see any key."""
    joined = torch.logaddexp(lse, sinks.to(lse.dtype)[:, None])
    return joined.masked_fill(lse == -INF, -INF)


def sink_gradient(
    inputs: Inputs, lse: Tensor, out: Tensor, grad: Tensor, grad_lse: Tensor | None
) -> Tensor | None:
    """Return the gradient of the sinks, from what a row gave and what came back; None if none."""
    if inputs.sinks is None:
        return None
    weight = (inputs.sinks.to(lse.dtype)[:, None] - lse).exp().masked_fill(lse == -INF, 0.0)
    pull = -(grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)
    pull = pull if grad_lse is None else pull + grad_lse
    return (weight * pull).sum((0, 2)).to(inputs.sinks.dtype)
