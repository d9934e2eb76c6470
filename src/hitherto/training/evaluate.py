"""How well a model predicts text it was not trained on."""

from collections.abc import Iterator

import torch
from torch import nn

from hitherto.errors import ModelError, explain
from hitherto.model.byte_tokens import encode
from hitherto.training.loss import IGNORED, cross_entropy, teach


@torch.no_grad()
def evaluate(model: nn.Module, data: bytes, context: int = 256, batch: int = 16) -> float:
    """Nats a byte over all of `data` but its first byte, each byte predicted once.

    Windows of `context` bytes overlap by half, and the first half of a window only serves as
    context: every byte but the first ones is predicted from at least context / 2 bytes.
    """
    if len(data) < 2:
        raise ModelError(
            explain("data", "must hold 2 bytes to predict one", len(data), "give more")
        )
    total = sum(
        cross_entropy(model(inputs), labels, reduction="sum").item()
        for inputs, labels in _windows(data, context, batch)
    )
    return total / (len(data) - 1)


def _windows(data: bytes, context: int, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    tokens = encode(data)
    context = min(context, len(tokens) - 1)
    new = max(context // 2, 1)
    ends = list(range(context, len(tokens), new))
    if ends[-1] < len(tokens) - 1:
        ends.append(len(tokens) - 1)
    done = 0
    for first in range(0, len(ends), batch):
        some = ends[first : first + batch]
        inputs, labels = teach(torch.stack([tokens[end - context : end + 1] for end in some]))
        labels = labels.clone()
        for row, end in enumerate(some):
            labels[row, : context - (end - done)] = IGNORED
            done = end
        yield inputs, labels
