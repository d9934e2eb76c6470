"""From any library's mask back to the expression that says it."""

from dataclasses import dataclass
from typing import Any

from hitherto.lowering.lower import lower
from hitherto.lowering.recognise.differences import Differences, differences_of
from hitherto.lowering.recognise.explain import explained_heads
from hitherto.lowering.recognise.reading import read
from hitherto.lowering.recognise.reading.dense import Polarity
from hitherto.lowering.recognise.sentence import sentence
from hitherto.mask import Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """What a mask of another library says, in ours."""

    mask: Mask
    """Equal to what was read, cell for cell, always: a `Table` where nothing shorter is."""

    pattern: Mask
    """The named masks that say it: `mask` itself if `exact`, else the nearest."""

    exact: bool
    """Whether `pattern` shows just the cells that were read."""

    differences: Differences
    """The cells in which `pattern` and `mask` differ."""

    q_len: int
    """Number of queries."""

    k_len: int
    """Number of keys."""

    q_start: int
    """Position of the first query."""

    sentence: str
    """All this in words."""

    def __str__(self) -> str:
        return f"{self.pattern}\n{self.sentence}"


def recognise(
    x: Any, *, true: Polarity = "attends", q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Recognition:  # fmt: skip
    """Find the simplest mask that equals another library's, or the nearest with what differs.

    Whether two masks are equal is decided on their Spans, never sampled. Which is simplest is not:
    a search that finds a short expression where one is made of a few named masks.

    Args:
        x: an array of cells (numpy, torch, jax; bool, 0 and 1, or additive), a FlexAttention
            `BlockMask`, an xFormers bias, one of `recognise.forms`, or what `lower` returned.
        true: what True and 1 mean in an array: "attends" (torch SDPA, flex, Keras, JAX) or "hides"
            (nn.MultiheadAttention, Transformer Engine). Additive floats say it themselves.
        q_len: number of queries, where x does not say it.
        k_len: number of keys, likewise.
        q_start: position of the first query; unless given the queries are the last of the keys, or
            begin at 0 where they are more.
    Raises:
        MaskError: x is no mask, or has lost a part without which it cannot be read.
    Cost: O(cells) to read an array of them; then by its runs, a few seconds for 16k x 16k.
    """
    grid = read(x, true=true, q_len=q_len, k_len=k_len, q_start=q_start)
    mask, pattern = explained_heads(grid)
    differences = differences_of(grid, pattern)
    q_start, q_len, k_len = grid.spans[0].grid
    return Recognition(
        mask=mask, pattern=pattern, exact=not differences.count, differences=differences,
        q_len=q_len, k_len=k_len, q_start=q_start, sentence=sentence(pattern, grid, differences),
    )  # fmt: skip


def convert(
    x: Any, to: str, *, true: Polarity = "attends", q_len: int | None = None,
    k_len: int | None = None, q_start: int | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Return another library's mask in the form of a third: `recognise`, then `lower`.

    Args:
        x: as `recognise` takes it; so are `true`, `q_len`, `k_len` and `q_start`.
        to: a target of `lower`.
        options: of that target.
    Raises:
        Unsupported: the target cannot say this mask.
        MaskError: x is no mask.
    """
    found = recognise(x, true=true, q_len=q_len, k_len=k_len, q_start=q_start)
    return lower(found.mask, to, found.q_len, found.k_len, found.q_start, **options)
