"""Every way into a specimen, as plain functions on tensors: what the tests measure by hand."""

from types import SimpleNamespace

import torch
from torch import nn

LENGTHS = (2, 1, 5, 3)  # of packed documents


def ways(model):
    """Functions (tokens, ...) -> outputs of one decoder: alone, padded, packed, cached."""
    return SimpleNamespace(
        plain=model,
        padded=lambda tokens, real: model(tokens, real=real),
        packed=lambda tokens, lengths: model(tokens, owner=numbered(lengths)),
        packed_masked=lambda tokens, lengths: model(
            tokens, real=torch.ones_like(tokens, dtype=torch.bool), owner=numbered(lengths)
        ),
        start=lambda batch: model.memory(),
        prompt=lambda memory, tokens, real: model(tokens, real=real, memory=memory),
        step=lambda memory, tokens: model(tokens, memory=memory),
    )


def numbered(rows):
    """(batch, length): the number of the document of each slot, from the lengths of each row."""
    return torch.stack(
        [torch.repeat_interleave(torch.arange(len(own)), torch.tensor(own)) for own in rows]
    )


def with_scores_scaled(model, factor=50.0):
    """Multiply the queries of every attention, so that scores reach any finite mask value."""
    with torch.no_grad():
        for module in model.modules():
            query = getattr(module, "query", getattr(module, "uno", None))
            if isinstance(query, nn.Linear):
                query.weight *= factor
    return model
