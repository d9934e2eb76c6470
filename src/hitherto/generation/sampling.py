"""Choosing the next token from logits."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from hitherto.model.values import require, require_above, require_types


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a token is drawn: penalty, temperature, top-k, top-p, min-p, in this order."""

    temperature: float = 1.0
    """Logits are divided by it; 0 takes the likeliest token, always."""
    top_k: int | None = None
    """Only the k likeliest tokens."""
    top_p: float | None = None
    """Only the likeliest tokens that together reach this probability, the last one included."""
    min_p: float | None = None
    """Only tokens with at least this fraction of the likeliest one's probability."""
    repetition_penalty: float = 1.0
    """Logits of tokens already in the sequence, prompt included, are divided by it if > 0 and
    multiplied if < 0; above 1 discourages. Source: https://arxiv.org/abs/1909.05858"""
    seed: int = 0
    """Sequence i of a batch draws from seed + i."""

    def __post_init__(self) -> None:
        require_types(self)
        require(self, "temperature", 0 <= self.temperature < np.inf, "must be finite and >= 0")
        require_above(self, 0, "top_k", "repetition_penalty")
        require_above(self, -1, "seed")
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            require(self, name, value is None or 0 < value <= 1, "must be above 0 and at most 1")

    def random(self, sequence: int) -> np.random.Generator:
        """The numbers that a sequence of a batch draws, whoever its neighbours are."""
        return np.random.Generator(np.random.Philox(key=self.seed + sequence))


def sample(
    logits: Float[np.ndarray, " vocab"],
    history: Collection[int],
    sampling: Sampling,
    random: np.random.Generator,
) -> int:
    """Draw a token; the lowest id wins a tie of the likeliest."""
    logits = penalise(logits.astype(np.float64), history, sampling.repetition_penalty)
    if sampling.temperature == 0:
        return int(logits.argmax())
    order, weights = shortlist(logits, sampling)
    upto = weights.cumsum()
    drawn = np.searchsorted(upto, random.random() * upto[-1], side="right")
    return int(order[min(drawn, len(order) - 1)])


def penalise(
    logits: Float[np.ndarray, " vocab"], history: Collection[int], penalty: float
) -> Float[np.ndarray, " vocab"]:
    """Make every token of the history less likely (penalty > 1)."""
    if penalty == 1 or not history:
        return logits
    seen = np.unique(np.fromiter(history, dtype=np.int64))
    scores = logits[seen]
    logits = logits.copy()
    logits[seen] = np.where(scores > 0, scores / penalty, scores * penalty)
    return logits


def shortlist(
    logits: Float[np.ndarray, " vocab"], sampling: Sampling
) -> tuple[Int64[np.ndarray, " kept"], Float[np.ndarray, " kept"]]:
    """The tokens that may be drawn, likeliest first, and their weights (not yet of sum 1)."""
    order = np.argsort(-logits, kind="stable")[: sampling.top_k]
    weights = np.exp((logits[order] - logits[order[0]]) / sampling.temperature)
    kept = len(order)
    if sampling.top_p is not None:
        share = weights.cumsum() / weights.sum()
        kept = int(np.searchsorted(share, sampling.top_p)) + 1
    if sampling.min_p is not None:
        kept = min(kept, int((weights >= sampling.min_p).sum()))
    return order[:kept], weights[:kept]
