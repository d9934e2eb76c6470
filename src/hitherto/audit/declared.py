"""The declared mask through the layers of a model: what may matter to what."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from hitherto.audit.subject import Array
from hitherto.errors import MaskError, explain
from hitherto.mask import Batch, Causal, Mask, Spans, bind

LONGEST = 4096
"""Positions at most: the audit keeps one bool a pair."""


@dataclass(frozen=True)
class Declared:
    """What the model says it sees: one mask for every layer, or one mask a layer."""

    masks: tuple[Mask, ...]
    depth: int | None
    """Layers; None = unknown, any number."""
    sure: bool = True
    """Whether every one of these layers carries influence."""
    own: bool = False
    """Whether an output may always depend on its own input, as where ids predict the next."""

    @staticmethod
    def of(
        declared: Mask | Sequence[Mask], depth: int | None, sure: bool = True, own: bool = False
    ) -> "Declared":
        """Read the `declared` and `depth` of a caller.

        Raises:
            MaskError: when it holds no mask, or masks that differ between rows of a batch.
        """
        masks = (declared,) if isinstance(declared, Mask) else tuple(declared)
        if not masks or not all(isinstance(mask, Mask) for mask in masks):
            raise MaskError(
                explain("declared", "must be a mask, or one mask a layer", repr(declared),
                        "pass e.g. Causal()")
            )  # fmt: skip
        return Declared(masks, *((len(masks), True) if len(masks) > 1 else (depth, sure)), own)

    def __str__(self) -> str:
        distinct = list(dict.fromkeys(map(str, self.masks)))
        return " then ".join(distinct) if len(distinct) > 1 else distinct[0]

    @property
    def causal(self) -> bool:
        """Whether it is `Causal()` in every layer: the same through any number of layers."""
        return set(self.masks) == {Causal()}

    def layers(self, length: int) -> list[Array]:
        """Visible pairs (queries, keys) of each mask, first layer first."""
        return [grid(mask, length, length) for mask in self.masks]

    def reach(self, length: int) -> Array:
        """Pairs (q, k) where input k may matter to output q, through all layers.

        Each layer also hands on its own input (the residual), once there is more than one.
        """
        if self.causal:
            return np.tri(length, dtype=bool)
        if len(self.masks) > 1:
            return reduce(
                compose, (step | np.eye(length, dtype=bool) for step in self.layers(length))
            )
        step = self.layers(length)[0]
        return through(step | np.eye(length, dtype=bool) if self.own else step, self.depth)

    def closure(self, length: int) -> Array:
        """Pairs (q, k) that some number of layers, in any order, may connect."""
        if self.causal:
            return np.tri(length, dtype=bool)
        return through(reduce(np.logical_or, self.layers(length)), None)


@lru_cache(maxsize=64)
def grid(mask: Mask, q_len: int, k_len: int, q_start: int = 0) -> Array:
    """Return a mask on a grid as bool (queries, keys), the union of its heads."""
    if max(q_len, k_len) > LONGEST:
        raise MaskError(
            explain("lengths", f"must be at most {LONGEST}", max(q_len, k_len), "audit less")
        )
    bound = bind(mask, q_len, k_len, q_start)
    if isinstance(bound, Spans):
        return bound.dense()
    return _heads(bound)


def _heads(bound: Batch) -> Array:
    if bound.index.shape[0] > 1:
        raise MaskError(
            explain("declared", "must be the same for every row of a batch",
                    f"{bound.index.shape[0]} rows", "audit with the mask of one row")
        )  # fmt: skip
    return reduce(np.logical_or, (spans.dense() for spans in bound.spans))


def compose(first: Array, then: Array) -> Array:
    """Return the pairs that two layers connect: (q, k) through some key of the later one."""
    return (then.astype(np.float32) @ first.astype(np.float32)) > 0


def through(step: Array, depth: int | None) -> Array:
    """Return the pairs that `depth` layers of this mask connect; None = any number of layers."""
    if depth == 1:
        return step
    seen = step | np.eye(len(step), dtype=bool)
    once, count = seen, 1
    while depth is None or count < depth:
        further = compose(seen, seen if depth is None else once)
        if (further == seen).all():
            break
        seen, count = further, count + 1
    return seen
