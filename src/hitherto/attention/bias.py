"""What is added to the scores: a function of the offset `k - q`, or a tensor of any other kind."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hitherto.errors import explain


@dataclass(frozen=True, slots=True, eq=False)
class Alibi:
    """Scores fall linearly with distance: the bias at (q, k) is `-slope * |q - k|`, per head.

    For keys at or before the query this is ALiBi's `slope * (k - q)`; keys after the query, where a
    mask allows them, fall off alike. Gradients reach the slopes.

    Source: Press et al. 2021, section 3.
    """

    slopes: Float[Tensor, " heads"]
    """One slope a head; usually positive."""

    def __post_init__(self) -> None:
        if self.slopes.ndim != 1:
            raise ValueError(
                explain("Alibi.slopes", "must have shape (heads,)", str(tuple(self.slopes.shape)),
                        "pass one slope a head, or use Alibi.geometric(heads)")
            )  # fmt: skip

    @classmethod
    def geometric(cls, heads: int) -> Self:
        """Return the paper's slopes, which fall geometrically.

        They are `2^(-8i/n)` for i in 1..n, n the largest power of two up to `heads`; further heads
        take the odd steps of the sequence for 2n.
        """
        base = 2 ** int(math.log2(heads))
        steps = [8 * i / base for i in range(1, base + 1)]
        steps += [4 * i / base for i in range(1, 2 * (heads - base) + 1, 2)]
        return cls(torch.tensor([2.0**-step for step in steps]))


@dataclass(frozen=True, slots=True, eq=False)
class Relative:
    """One learned number for every head and offset `k - q`.

    Meaning: the bias of head h at (q, k) is `table[h, (k - q) - first]`; an offset before the table
    takes its first entry, one after it the last. Gradients reach the table.
    """

    table: Float[Tensor, "heads offsets"]
    """A row a head (or one row for all)."""

    first: int | None = None
    """The offset `k - q` of column 0. None centres a table of odd length on offset 0."""

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or 0 in self.table.shape:
            raise ValueError(
                explain("Relative.table", "must have shape (heads, offsets)",
                        str(tuple(self.table.shape)), "pass a row of biases a head")
            )  # fmt: skip
        if self.first is None:
            if self.table.shape[1] % 2 == 0:
                raise ValueError(
                    explain("Relative.first", "must be given for a table of even length",
                            f"{self.table.shape[1]} offsets", "pass the offset k - q of column 0")
                )  # fmt: skip
            object.__setattr__(self, "first", -(self.table.shape[1] // 2))

    @classmethod
    def bucketed(
        cls,
        weight: Float[Tensor, "buckets heads"],
        *,
        bidirectional: bool,
        max_distance: int = 128,
    ) -> Self:
        """Spread T5's buckets over offsets. Gradients reach `weight`.

        Half of the buckets (of each side, if bidirectional) hold one offset each; the rest grow
        with the logarithm of the distance up to `max_distance`, beyond which all share the last.
        When not bidirectional, every key after the query is in bucket 0.

        Source: Raffel et al. 2020, section 2.1; mesh_tensorflow `_relative_position_bucket`.
        """
        offsets = torch.arange(-max_distance, max_distance + 1, device=weight.device)
        bucket = _bucket(offsets, weight.shape[0], bidirectional, max_distance)
        return cls(weight[bucket].T, first=-max_distance)


def _bucket(
    offset: Int[Tensor, " offsets"], buckets: int, bidirectional: bool, max_distance: int
) -> Int[Tensor, " offsets"]:
    start = torch.zeros_like(offset)
    if bidirectional:
        buckets //= 2
        start = (offset > 0) * buckets
        distance = offset.abs()
    else:
        distance = (-offset).clamp(min=0)
    exact = buckets // 2
    ratio = (distance.clamp(min=1) / exact).log() / math.log(max_distance / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return start + torch.where(distance < exact, distance, far)


Bias = Alibi | Relative | Tensor
"""What `attend` takes as bias; a tensor broadcasts to (batch, heads, queries, keys)."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the numbers of a bias become scores: its part that is no tensor."""

    kind: Literal["alibi", "relative", "given"]
    first: int = 0


def split(bias: Bias | None) -> tuple[Form | None, Tensor | None]:
    """Part a bias into its form and the tensor that takes the gradient."""
    match bias:
        case None:
            return None, None
        case Alibi(slopes=slopes):
            return Form("alibi"), slopes
        case Relative(table=table, first=first):
            return Form("relative", first or 0), table
    return Form("given"), bias[(None,) * (4 - bias.ndim)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Corner:
    """The rows and keys of a tile: where they are stored, and their absolute positions."""

    rows: Int[Tensor, " queries"]
    keys: Int[Tensor, " keys"]
    q_pos: Int[Tensor, " queries"]
    k_pos: Int[Tensor, " keys"]

    @property
    def offset(self) -> Int[Tensor, "queries keys"]:
        """`k - q` of every cell."""
        return self.k_pos - self.q_pos[:, None]


def tile(form: Form, leaf: Tensor, at: Corner, dtype: torch.dtype) -> Tensor:
    """Return the bias of a tile: (batch or 1, heads or 1, queries, keys), differentiable."""
    match form.kind:
        case "alibi":
            return -leaf.to(dtype)[None, :, None, None] * at.offset.abs()
        case "relative":
            return leaf.to(dtype)[:, _column(form, leaf, at)][None]
    rows = at.rows if leaf.shape[2] > 1 else at.rows[:1] * 0
    keys = at.keys if leaf.shape[3] > 1 else at.keys[:1] * 0
    return leaf[:, :, rows[:, None], keys].to(dtype)


def add_gradient(into: Tensor, form: Form, grad: Tensor, at: Corner) -> None:
    """Add the gradient of a tile, (batch, heads, queries, keys), to that of the leaf."""
    match form.kind:
        case "alibi":
            into -= (grad.sum(0) * at.offset.abs()).sum((-2, -1))
        case "relative":
            per_head = grad.sum(0).flatten(1)
            per_head = per_head if into.shape[0] > 1 else per_head.sum(0, keepdim=True)
            into.index_add_(1, _column(form, into, at).flatten(), per_head)
        case "given":
            rows = at.rows if into.shape[2] > 1 else at.rows[:1] * 0
            keys = at.keys if into.shape[3] > 1 else at.keys[:1] * 0
            shape = (into.shape[0], into.shape[1], rows.numel(), keys.numel())
            into[:, :, rows[:, None], keys] += grad.sum_to_size(shape)


def _column(form: Form, table: Tensor, at: Corner) -> Int[Tensor, "queries keys"]:
    return (at.offset - form.first).clamp(0, table.shape[1] - 1)
