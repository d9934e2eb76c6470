"""Teacher forcing and its loss. Labels are shifted here, and nowhere else."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100
"""The label of a position that has nothing to predict."""


def teach(
    tokens: Int64[Tensor, "batch positions"],
    documents: Int64[Tensor, "batch positions"] | None = None,
    padding: int | None = None,
) -> tuple[Int64[Tensor, "batch queries"], Int64[Tensor, "batch queries"]]:
    """Inputs and labels: at every position the label is the token right after the input.

    Args:
        tokens: n + 1 tokens a row give n inputs and n labels.
        documents: ids; a token is no label for the document before it.
        padding: a token id that is never a label.
    """
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    if documents is not None:
        crosses = (documents[:, 1:] != documents[:, :-1]) | (documents[:, 1:] < 0)
        labels = torch.where(crosses, IGNORED, labels)
    if padding is not None:
        labels = torch.where(labels == padding, IGNORED, labels)
    return inputs, labels


def cross_entropy(
    logits: Float[Tensor, "batch queries vocab"],
    labels: Int64[Tensor, "batch queries"],
    reduction: str = "mean",
) -> Float[Tensor, ""]:
    """Nats a label, over labels that are not ignored. Already shifted labels: see `teach`."""
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction=reduction
    )


def bits(nats: float) -> float:
    """Nats as bits: of a byte-level model, bits per byte."""
    return nats / math.log(2)
