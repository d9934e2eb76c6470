"""Several documents in one row, each as if it stood alone."""

from collections.abc import Sequence
from dataclasses import fields

import torch
from jaxtyping import Int64
from torch import Tensor

from hitherto.errors import ModelError, explain
from hitherto.mask import (
    And,
    Band,
    Causal,
    Dilated,
    Everything,
    Mask,
    Minus,
    Not,
    Nothing,
    Or,
    PerHead,
    Segments,
    Shift,
    Strided,
    Window,
    Xor,
)

DISTANCES = (Everything, Nothing, Causal, Window, Band, Dilated, Strided)
"""Masks that depend on q - k alone."""


def place_documents(
    documents: Int64[Tensor, "batch queries"], masks: Sequence[Mask], cache: object = None
) -> tuple[Int64[Tensor, "batch queries"], tuple[Mask, ...]]:
    """Positions that start at 0 in each document, and the masks held within documents.

    Raises:
        ModelError: with a cache, or when a mask would mean something else inside a row.
    """
    if cache is not None:
        raise ModelError(
            explain("documents", "cannot be cached", "a cache too", "run each document by itself")
        )
    for mask in masks:
        if not counts_distances(mask):
            raise ModelError(
                explain(
                    "documents",
                    "need masks of distances alone, the same wherever a document starts",
                    str(mask),
                    "give each document a row of its own",
                )
            )
    runs, positions = _runs(documents)
    within = Segments(runs.cpu().numpy())
    return positions, tuple(mask & within for mask in masks)


def counts_distances(mask: Mask) -> bool:
    """Whether the mask is a function of q - k alone."""
    match mask:
        case And() | Or() | Xor() | Minus() | Not() | Shift() | PerHead():
            values = [getattr(mask, field.name) for field in fields(mask)]
            inner = [m for v in values for m in (v if isinstance(v, tuple) else (v,))]
            return all(counts_distances(m) for m in inner if isinstance(m, Mask))
    return isinstance(mask, DISTANCES)


def _runs(documents: Tensor) -> tuple[Tensor, Tensor]:
    """Number the runs of equal ids (-1 stays), and the positions inside each."""
    first = torch.ones_like(documents, dtype=torch.bool)
    first[:, 1:] = documents[:, 1:] != documents[:, :-1]
    slots = torch.arange(documents.shape[1], device=documents.device)
    starts = torch.where(first, slots, 0).cummax(dim=1).values
    runs = first.cumsum(dim=1) - 1
    return torch.where(documents < 0, -1, runs), slots - starts
