"""How to train, as one value."""

import math
from dataclasses import dataclass

from hitherto.model.values import require, require_above, require_types


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Length, batches and step sizes of a run. The defaults suit `tiny()` and a minute."""

    steps: int | None = None
    """Updates in all; or give seconds."""
    seconds: float | None = None
    """Seconds in all, over every resumption; or give steps."""
    batch: int = 2
    """Rows in a batch."""
    context: int = 256
    """Tokens a row."""
    accumulate: int = 1
    """Batches whose gradients are averaged for one update."""
    lr: float = 3e-3
    """Highest learning rate."""
    lr_end: float = 0.05
    """Last learning rate, as a fraction of the highest."""
    warmup: float = 0.05
    """Fraction of the run in which the learning rate rises."""
    beta1: float = 0.9
    """Decay of AdamW's mean gradient."""
    beta2: float = 0.98
    """Decay of AdamW's mean squared gradient."""
    weight_decay: float = 0.1
    """On matrices only: not on norms and biases."""
    clip: float = 1.0
    """Longest gradient, over all weights together."""
    seed: int = 0
    """Chooses the batches."""
    save_every_s: float = 30.0
    """Seconds between checkpoints."""

    def __post_init__(self) -> None:
        require_types(self)
        require_above(self, 0, "steps", "seconds", "batch", "context", "accumulate", "lr", "clip")
        require_above(self, -1, "seed")
        one = (self.steps is None) != (self.seconds is None)
        require(self, "steps", one, "or seconds must be given, not both")
        for name in ("lr_end", "warmup", "beta1", "beta2"):
            require(self, name, 0 <= getattr(self, name) < 1, "must be from 0 to below 1")
        require(self, "weight_decay", self.weight_decay >= 0, "must be >= 0")

    def progress(self, step: int, elapsed: float) -> float:
        """How much of the run is done after `step` updates and `elapsed` seconds, from 0 to 1."""
        done = step / self.steps if self.steps else elapsed / (self.seconds or math.inf)
        return min(done, 1.0)

    def learning_rate(self, progress: float) -> float:
        """A straight rise, then half a cosine down to lr_end."""
        if progress < self.warmup:
            return self.lr * max(progress / self.warmup, 0.01)
        down = (progress - self.warmup) / (1 - self.warmup)
        return self.lr * (self.lr_end + (1 - self.lr_end) * (1 + math.cos(math.pi * down)) / 2)
