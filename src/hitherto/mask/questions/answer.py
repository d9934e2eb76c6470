"""What a yes-or-no question returns, and on what it may be asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.bind import Batch, bind
from hitherto.mask.expression import Mask
from hitherto.mask.spans import Spans

Pair = tuple[int, int]
Bound = Spans | Batch


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes, no or unknown, with a pair of positions that shows it where one can."""

    value: bool | None
    """True = yes, False = no, None = not decided."""

    witness: Pair | None
    """A (query, key) that proves a no."""

    reason: str
    """Why, in words."""

    def __bool__(self) -> bool:
        if self.value is None:
            raise MaskError(
                explain("bool(answer)", "needs a decided answer", f"unknown: {self.reason}",
                        "look at .value, or ask on a grid of known lengths")
            )  # fmt: skip
        return self.value


def bound(
    subject: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Bound:  # fmt: skip
    """Return the Spans asked about: as given, or a mask put on the grid that is given."""
    if isinstance(subject, (Spans, Batch)):
        if (q_len, k_len, q_start) != (None, None, None):
            raise MaskError(
                explain("q_len, k_len, q_start", "belong to a mask; Spans have their grid",
                        (q_len, k_len, q_start), "leave them out")
            )  # fmt: skip
        return subject
    if q_len is None:
        raise MaskError(
            explain("q_len", "must be given with a mask", None, "pass q_len (and k_len), or Spans")
        )
    return bind(subject, q_len, q_len if k_len is None else k_len, q_start)


def each(subject: Bound, ask: Callable[[Spans], Any]) -> Any:
    """Ask of one grid, or of every grid of a batch: then an array (batch, heads) of answers."""
    if isinstance(subject, Spans):
        return ask(subject)
    answers = [ask(spans) for spans in subject.spans]
    plain = all(isinstance(x, (int, float)) for x in answers)
    table = np.empty(len(answers), np.asarray(answers).dtype if plain else object)
    for i, answer in enumerate(answers):
        table[i] = answer
    return table[subject.index]
