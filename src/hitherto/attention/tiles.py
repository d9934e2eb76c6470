"""Tiles cut from whole tensors and put back: (heads, slots, ..) to (tiles, heads, slots, ..)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

INF = float("inf")


class Cells(NamedTuple):
    """What the tiles of a job have in common."""

    seen: Bool[Tensor, "queries keys"] | None
    """Visible cells; None where all are, or where `causal` says which."""

    bias: Tensor | None
    """(1, heads or 1, queries, keys), added to the scores."""

    causal: bool
    """Visible is `key <= row`, which the fused kernel knows by name."""


class Rows(NamedTuple):
    """What the backward pass knows of the rows of a job; of whole rows, not only of this tile."""

    q: Tensor
    out: Tensor
    lse: Tensor
    """Finite: 0 for rows without keys."""

    grad: Tensor
    grad_lse: Tensor | None


At = slice | Tensor
"""Slots of the tiles of a job, tile after tile."""


def take(x: Tensor, at: At, count: int) -> Tensor:
    """Return `count` tiles; a view where the slots follow one another."""
    part = x[:, at] if isinstance(at, slice) else x.index_select(1, at.to(x.device))
    return part.unflatten(1, (count, -1)).transpose(0, 1)


def put(into: Tensor, at: At, tiles: Tensor) -> None:
    """Write tiles to their slots."""
    flat = tiles.transpose(0, 1).flatten(1, 2).to(into.dtype)
    if isinstance(at, slice):
        into[:, at] = flat
    else:
        into.index_copy_(1, at.to(into.device), flat)


def add(into: Tensor, at: At, tiles: Tensor) -> None:
    """Add tiles to their slots; slots may occur in several tiles."""
    flat = tiles.transpose(0, 1).flatten(1, 2).to(into.dtype)
    if isinstance(at, slice):
        into[:, at] += flat
    else:
        into.index_add_(1, at.to(into.device), flat)


def merge(out: Tensor, lse: Tensor, at: At, tile_out: Tensor, tile_lse: Tensor) -> None:
    """Join partial results over other keys of the same rows: their mean, weighted by exp(lse)."""
    count = tile_out.shape[0]
    old_out, old_lse = take(out, at, count), take(lse, at, count)
    joined = torch.logaddexp(old_lse, tile_lse)
    kept, new = ratio(old_lse, joined), ratio(tile_lse, joined)
    put(out, at, old_out * kept[..., None] + tile_out * new[..., None])
    put(lse, at, joined)


def ratio(lse: Tensor, joined: Tensor) -> Tensor:
    """Return `exp(lse - joined)`, which is 0 for a part without keys."""
    return (lse - joined.masked_fill(joined == -INF, 0.0)).exp()
