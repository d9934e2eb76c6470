"""First weights, from a seed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def drawn_from(seed: int, model: nn.Module, num_layers: int) -> Iterator[None]:
    """Build the layers of `model` inside; then draw their weights from `seed` alone.

    Matrices are normal with variance 1 / (length of a row), so that what they give is as large as
    what they take; those that write into the residual stream are narrower by sqrt(2 * num_layers),
    as in GPT-2, so that the stream grows with depth no more. Norms and biases stay as built.
    """
    with torch.random.fork_rng(devices=[]):
        yield
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2 or parameter.is_meta:
            continue
        std = parameter.shape[-1] ** -0.5
        if name.endswith(("output.weight", "down.weight")):
            std /= (2 * num_layers) ** 0.5
        nn.init.normal_(parameter, std=std, generator=generator)
