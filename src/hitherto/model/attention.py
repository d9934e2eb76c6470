"""Attention as a layer: project, rotate, remember, attend. Masking happens in `attend` alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hitherto.attention import Relative, attend
from hitherto.cache import Growing, Paged, Rolling
from hitherto.mask import Mask
from hitherto.model.config import DecoderConfig
from hitherto.model.layers import Angles, Norm, rotate
from hitherto.model.linear import Linear

LayerCache = Growing | Rolling | Paged
"""The cache of one layer."""

Cache = Sequence[LayerCache]
"""The cache of a whole model: one a layer, first to last."""

Attend = Callable[..., Tensor]
"""What takes the arguments of `hitherto.attend` and gives the same numbers."""

Layout = Sequence[tuple[slice, Cache | None]]
"""Which tokens of a row are one sequence, and what it has seen before: its cache, or nothing."""


class Part(NamedTuple):
    """Tokens side by side on the query axis that see one another, and their layer's cache.

    A plain batch is one part. Sequences of different lengths stand in one row, each a part.
    """

    tokens: slice
    cache: LayerCache | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one layer's attention needs to know besides its input."""

    mask: Mask
    parts: Sequence[Part]
    angles: Angles | None = None
    bias: Relative | None = None
    attend: Attend | None = None
    """How: `hitherto.attend` if None; or one of `hitherto.distributed`, with other processes."""


class Attention(nn.Module):
    """Self-attention with grouped heads; with or without caches, by the same code."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.scale, self.softcap = config.score_scale, config.score_softcap
        inner, kv_inner = (n * self.head_dim for n in (config.num_heads, config.num_kv_heads))
        biased = config.bias or config.qkv_bias
        self.query = Linear(config.width, inner, bias=biased)
        self.key = Linear(config.width, kv_inner, bias=biased)
        self.value = Linear(config.width, kv_inner, bias=biased)
        self.output = Linear(inner, config.width, bias=config.bias)
        self.query_norm = Norm(config, self.head_dim) if config.norm_qk else None
        self.key_norm = Norm(config, self.head_dim) if config.norm_qk else None

    def forward(
        self, x: Float[Tensor, "batch queries width"], sight: Sight
    ) -> Float[Tensor, "batch queries width"]:
        """Let every token look where the layer's mask lets it."""
        q, k, v = self.project(x, sight.angles)
        seen = [
            self._attend(q[:, :, t], k[:, :, t], v[:, :, t], cache, sight)
            for t, cache in sight.parts
        ]
        return self.output(join_heads(seen[0] if len(seen) == 1 else torch.cat(seen, dim=2)))

    def project(
        self, x: Float[Tensor, "batch queries width"], angles: Angles | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (batch, heads, queries, head_dim), as `attend` gets them."""
        q, k, v = (split_heads(f(x), self.head_dim) for f in (self.query, self.key, self.value))
        if self.query_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        return q, k, v

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, cache: LayerCache | None, sight: Sight
    ) -> Tensor:
        q_start = k_pos = None
        if cache is not None:
            cache.append(k, v)
            k, v, positions = cache.view()
            q_start = cache.length - q.shape[2]
            k_pos = None if positions.numel() == cache.length else positions
        return (sight.attend or attend)(
            q,
            k,
            v,
            sight.mask,
            bias=sight.bias,
            scale=self.scale,
            softcap=self.softcap,
            q_start=q_start,
            k_pos=k_pos,
        )


class Source(NamedTuple):
    """The other side of cross-attention: an encoder's output as one layer reads it."""

    keys: Tensor
    """(batch, kv_heads, keys, head_dim)."""
    values: Tensor
    """(batch, kv_heads, keys, head_dim)."""
    mask: Mask
    """Which source tokens are real."""


class CrossAttention(nn.Module):
    """Attention from a target to a source whose keys and values are computed once."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        inner, kv_inner = (n * self.head_dim for n in (config.num_heads, config.num_kv_heads))
        self.query = Linear(config.width, inner, bias=config.bias)
        self.key = Linear(config.width, kv_inner, bias=config.bias)
        self.value = Linear(config.width, kv_inner, bias=config.bias)
        self.output = Linear(inner, config.width, bias=config.bias)

    def read(self, encoded: Float[Tensor, "batch keys width"], mask: Mask) -> Source:
        """Keys and values of the encoder's output: computed once, used at every step."""
        k, v = (split_heads(f(encoded), self.head_dim) for f in (self.key, self.value))
        return Source(k, v, mask)

    def forward(
        self, x: Float[Tensor, "batch queries width"], source: Source
    ) -> Float[Tensor, "batch queries width"]:
        """Let every target token see the source tokens that the mask shows."""
        q = split_heads(self.query(x), self.head_dim)
        return self.output(join_heads(attend(q, *source, q_start=0)))


def split_heads(
    x: Float[Tensor, "batch queries inner"], head_dim: int
) -> Float[Tensor, "batch heads queries head_dim"]:
    """One axis for the heads, before the tokens."""
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def join_heads(
    x: Float[Tensor, "batch heads queries head_dim"],
) -> Float[Tensor, "batch queries inner"]:
    """Undo `split_heads`."""
    return x.transpose(1, 2).flatten(2)
