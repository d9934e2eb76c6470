"""What to pass to `recognise` where an array alone does not say what it is.

A value of one of these classes is the array and its convention. Arrays may be of numpy, torch or
jax, or lists. What `lower` returns says what it is, and is taken as it comes: `Csr` and `Coo` of
`lowering.sparse`, `FlashMask` of `lowering.flashmask`, `MagiSlices` of `lowering.magi`, a `Call`.
"""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Bits:
    """One bit a cell, 1 = may attend; each row begins on a byte."""

    array: Any
    """uint8 (..., queries, ceil(keys / 8))."""

    k_len: int
    """Keys: bits of a row past these are not read."""

    order: Literal["little", "big"] = "little"
    """Where key 0 is: "little" in the lowest bit (flashinfer), "big" in the highest (numpy)."""


@dataclass(frozen=True, slots=True)
class CuSeqlens:
    """Packed documents as flash-attn's varlen functions have them."""

    q: Any
    """Where each document's queries begin, and their end: (documents + 1,)."""

    k: Any = None
    """Where each document's keys begin, and their end; `q` unless given."""

    causal: bool = False
    """Whether a query sees no later key: aligned at the last query and key of each document."""

    window: tuple[int, int] = (-1, -1)
    """Keys before and after the aligned one that are seen, besides it; -1 = no limit."""


@dataclass(frozen=True, slots=True)
class Padding:
    """transformers' 2-D `attention_mask`: 1 for tokens, 0 for pads, (batch, keys)."""

    array: Any
    """Ints or bools."""

    causal: bool = True
    """Whether the model is a decoder, whose queries see no later key."""


@dataclass(frozen=True, slots=True)
class PositionIds:
    """transformers' `position_ids` of packed documents: each begins again, (batch, keys)."""

    array: Any
    """Ints that rise by one inside a document; (keys,) or (batch, keys)."""

    causal: bool = True
    """Whether a query sees no later key."""
