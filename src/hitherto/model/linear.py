"""Linear layers: for a few tokens, which is decode, each weight is read once, at memory's speed."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from hitherto.attention import native

FEW = 8
"""Tokens up to which reading the weights takes longer than multiplying by them."""

PLAIN = (Tensor, nn.Parameter)
"""Tensors whose memory may be read by address: no subclass that stands for something else."""


def linear(
    x: Float[Tensor, "*batch width"],
    weight: Float[Tensor, "outputs width"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """Return `x @ weight.T + bias`; by the native kernel where that is ahead and no gradient asked.

    Source: benchmarks/results/native_log.md
    """
    rows = x.numel() // max(weight.shape[1], 1)
    if not 0 < rows <= FEW or torch.is_grad_enabled() or not _readable(x, weight):
        return F.linear(x, weight, bias)
    return native.linear(x.reshape(rows, -1), weight, bias).view(*x.shape[:-1], -1)


def _readable(x: Tensor, weight: Tensor) -> bool:
    return (
        bool(native.SETS)
        and x.dtype == weight.dtype in (torch.float32, torch.bfloat16)
        and x.device.type == weight.device.type == "cpu"
        and type(x) in PLAIN
        and type(weight) in PLAIN
        and not torch.compiler.is_compiling()
    )


class Linear(nn.Linear):
    """torch's layer, computed by `linear`."""

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch outputs"]:
        """The same for every token."""
        return linear(x, self.weight, self.bias)
