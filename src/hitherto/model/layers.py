"""The parts of a block that do not look at other tokens: norm, rotation, feed-forward."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from hitherto.model.config import DecoderConfig
from hitherto.model.linear import Linear, linear

Angles = tuple[Tensor, Tensor]
"""Cosines and sines, each (queries, head_dim / 2) or (batch, 1, queries, head_dim / 2)."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
}


class Norm(nn.Module):
    """LayerNorm or RMSNorm over the last axis; with an offset RMSNorm scales by 1 + weight."""

    def __init__(self, config: DecoderConfig, size: int) -> None:
        super().__init__()
        self.kind, self.eps, self.offset = config.norm, config.norm_eps, config.norm_offset
        plain = self.kind == "rms" and self.offset
        self.weight = nn.Parameter(torch.zeros(size) if plain else torch.ones(size))
        has_bias = self.kind == "layer" and config.bias
        self.bias = nn.Parameter(torch.zeros(size)) if has_bias else None

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Normalise each vector by itself."""
        if self.kind == "layer":
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        return F.rms_norm(
            x, x.shape[-1:], self.weight + 1 if self.offset else self.weight, self.eps
        )


class FeedForward(nn.Module):
    """Two linear layers and an activation, gated (SwiGLU, GeGLU) or not."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.up = Linear(config.width, config.hidden, bias=config.bias)
        self.gate = Linear(config.width, config.hidden, bias=config.bias) if config.gated else None
        self.down = Linear(config.hidden, config.width, bias=config.bias)

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """The same for every token."""
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Head(nn.Module):
    """Logits from the last vectors, by weights of its own or by the embedding's."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.softcap = config.logit_softcap
        shape = (config.vocab_size, config.width)
        self.weight = None if config.tied else nn.Parameter(torch.empty(shape))

    def forward(
        self, x: Float[Tensor, "batch queries width"], embedding: nn.Embedding
    ) -> Float[Tensor, "batch queries vocab"]:
        """Float32 or better."""
        logits = linear(x, embedding.weight if self.weight is None else self.weight)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


def angles(
    positions: Int64[Tensor, "*batch queries"],
    head_dim: int,
    base: float,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
    factors: Sequence[float] = (),
) -> Angles:
    """Rotary angles: pair i of a head turns by position / scale * base ** (-2 i / head_dim).

    With `factors`, pair i turns slower by the i-th of them.
    """
    pair = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device)
    speed = 1.0 / base ** (pair / head_dim) / scale
    if factors:
        speed = speed / torch.tensor(factors, dtype=torch.float32, device=positions.device)
    angle = positions[..., None] * speed
    if angle.ndim == 3:
        angle = angle[:, None]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(
    x: Float[Tensor, "batch heads queries head_dim"], angles: Angles
) -> Float[Tensor, "batch heads queries head_dim"]:
    """Turn each pair (i, i + head_dim / 2) of a head by its angle.

    Source: the half-split order of Llama and Gemma, https://arxiv.org/abs/2104.09864
    """
    cos, sin = angles
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
