"""How far a model may run, and where a sequence may be cut."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hitherto.errors import MaskError, ModelError, explain
from hitherto.mask import Keys, Mask, Queries, bind, is_causal, live_keys, pairs

FAR = 1 << 40


class Limits:
    """The longest sequence and the legal cuts of one model.

    A cut at c splits a sequence into two steps. It is legal when no query before c sees a key at c
    or later: that key would come too late. Every cut is legal for a causal mask; a prefix that
    sees itself both ways must stay in one piece.
    """

    def __init__(self, max_length: int | None, masks: Sequence[Mask]) -> None:
        self.max_length = max_length
        self.masks = tuple(dict.fromkeys(masks))
        self.ahead = tuple(mask for mask in self.masks if is_causal(mask).value is not True)

    def require_room(self, length: int) -> None:
        """Raise ModelError unless the model and its masks reach `length` positions."""
        self._require_length(length)
        for mask in self.masks:
            try:
                bind(mask, 1, length)
            except MaskError as error:
                raise ModelError(f"a mask does not reach {length} positions: {error}") from error

    def require_step(self, start: int, count: int) -> None:
        """Raise ModelError unless `count` tokens may follow `start` that are cached."""
        self._require_length(start + count)
        for mask in self.ahead if start else ():
            if _sees_past(mask, start, start, start + count):
                raise ModelError(
                    explain(
                        "cache",
                        f"must be cut where no earlier query looks ahead, as {mask} does here",
                        f"a cut at {start}",
                        "give these tokens together with the earlier ones in one step",
                    )
                )

    def next_cut(self, start: int, chunk: int, length: int) -> int:
        """The first legal cut at `start + chunk` or later, at most `length`."""
        cut = min(start + chunk, length)
        while cut < length:
            furthest = max([cut, *(_furthest(mask, cut, length) for mask in self.ahead)])
            if furthest == cut:
                break
            cut = furthest
        return cut

    def _require_length(self, length: int) -> None:
        if self.max_length is not None and length > self.max_length:
            raise ModelError(
                explain(
                    "tokens",
                    f"must end within the model's max_length of {self.max_length} positions",
                    f"{length} positions",
                    "shorten the prompt, ask for fewer tokens, or raise max_length and train",
                )
            )


def forgets(mask: Mask) -> bool:
    """Whether a cache may ever drop a key: the mask's live keys are not all keys."""
    try:
        return live_keys(mask, FAR).tolist() != [[0, FAR]]
    except MaskError:
        return False


def require_tokens(tokens: Tensor, ndim: int) -> None:
    """Raise ModelError unless these are int64 ids with this many axes and at least one token."""
    if tokens.dtype != torch.int64 or tokens.ndim != ndim or tokens.shape[-1] == 0:
        shape = "(batch, n)" if ndim == 2 else "(n,)"
        raise ModelError(
            explain(
                "tokens",
                f"must be int64 ids of shape {shape} with n >= 1",
                f"{tokens.dtype} {tuple(tokens.shape)}",
                "convert with torch.tensor(ids, dtype=torch.int64)",
            )
        )


def _sees_past(mask: Mask, cut: int, first: int, length: int) -> bool:
    """Whether a query before `cut` sees a key in first .. length - 1."""
    return pairs(mask & Queries(range(cut)) & Keys(range(first, length)), cut, length, 0) > 0


def _furthest(mask: Mask, cut: int, length: int) -> int:
    """One past the last key that a query before `cut` sees, or `cut`; by bisection."""
    low, high = cut, length
    while low < high:
        middle = (low + high) // 2
        if _sees_past(mask, cut, middle, length):
            low = middle + 1
        else:
            high = middle
    return low
