"""How likely a text is under a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional as F

from hitherto.errors import ModelError, explain
from hitherto.model import Decoder
from hitherto.model.limits import require_tokens

ROWS = 128
"""Positions whose logits are held at once: a vocabulary may be large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The log-likelihood of tokens, and what it was computed from."""

    nats: float
    """Minus the log-likelihood of the tokens predicted, all together."""
    predicted: int
    """Tokens predicted: all but the first."""
    window: int
    """Tokens that were run together."""
    stride: int
    """New tokens in each window after the first; the ones before them are context only."""

    def bits_per_byte(self, nbytes: int) -> float:
        """Bits for each of the bytes that the predicted tokens spell."""
        return self.nats / log(2) / nbytes


@torch.no_grad()
def score(
    model: Decoder,
    tokens: Int64[Tensor, " queries"],
    *,
    window: int = 1024,
    stride: int | None = None,
) -> Score:
    """Minus the log-likelihood of tokens, each predicted once from those before it in its window.

    Args:
        model: a decoder.
        tokens: 2 or more; the first is context only.
        window: tokens run together, >= 2; fewer where there are fewer.
        stride: new tokens in a window, 1 .. window - 1; half the window unless given. Every token
            but those of the first window is predicted from at least window - stride tokens.
    Raises:
        ModelError: for too few tokens, or a window or stride that is not in range.
    """
    require_tokens(tokens, 1)
    stride = max(window // 2, 1) if stride is None else stride
    if window < 2 or not 1 <= stride < window:
        raise ModelError(
            explain("window, stride", "must be 2 tokens or more, and 1 .. window - 1",
                    f"{window} and {stride}", "leave the stride to its default")
        )  # fmt: skip
    if len(tokens) < 2:
        raise ModelError(
            explain("tokens", "must be 2 tokens or more", len(tokens), "give a longer text")
        )
    window = min(window, len(tokens))
    model.stack.limits.require_room(window)
    nats = 0.0
    for start, stop, new in _windows(len(tokens), window, stride):
        hidden = model.hidden(tokens[None, start:stop])[0, :-1]
        labels = tokens[start + 1 : stop]
        for row in range(len(labels) - new, len(labels), ROWS):
            some = slice(row, row + ROWS)
            logits = model.logits(hidden[None, some])[0]
            nats += F.cross_entropy(logits.double(), labels[some], reduction="sum").item()
    return Score(nats=nats, predicted=len(tokens) - 1, window=window, stride=stride)


def _windows(count: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """First token, one past the last, and how many of them are new to predict."""
    done, stop = 1, window
    while done < count:
        yield stop - window, stop, stop - done
        done, stop = stop, min(stop + stride, count)
