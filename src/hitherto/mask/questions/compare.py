"""Are two masks the same on a grid? Is one inside the other? Where do they first differ?"""

from collections.abc import Iterator

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask.algebra import combine
from hitherto.mask.bind import Batch
from hitherto.mask.expression import Mask
from hitherto.mask.questions.answer import Answer, Bound, Pair, bound
from hitherto.mask.questions.rows import ranges_of
from hitherto.mask.spans import Spans


def equal(
    a: Mask | Bound, b: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Answer:  # fmt: skip
    """Decide whether two masks show the same cells; the witness is the first that differs."""
    found = difference(a, b, q_len, k_len, q_start)
    if found is None:
        return Answer(True, None, "every cell agrees")
    return Answer(False, found, f"query {found[0]} and key {found[1]}: visible in one only")


def subset(
    a: Mask | Bound, b: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Answer:  # fmt: skip
    """Decide whether b shows all that a shows; the witness is the first cell it does not."""
    found = _first(_both(a, b, q_len, k_len, q_start), "minus")
    if found is None:
        return Answer(True, None, "every visible cell of the first is visible in the second")
    return Answer(False, found, f"query {found[0]} and key {found[1]}: visible in the first only")


def difference(
    a: Mask | Bound, b: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Pair | None:  # fmt: skip
    """Return the first (query, key), row by row, that one mask shows and the other hides."""
    return _first(_both(a, b, q_len, k_len, q_start), "xor")


def _both(
    a: Mask | Bound, b: Mask | Bound, q_len: int | None, k_len: int | None, q_start: int | None
) -> Iterator[tuple[Spans, Spans]]:
    sides = []
    for subject in (a, b):
        lengths = (q_len, k_len, q_start) if isinstance(subject, Mask) else ()
        grid = bound(subject, *lengths)
        sides.append(grid if isinstance(grid, Batch) else Batch(np.zeros((1, 1), int), (grid,)))
    shapes = [side.index.shape for side in sides]
    if any(m != n and 1 not in (m, n) for m, n in zip(*shapes, strict=True)):
        raise MaskError(
            explain("a and b", "must have batch and head axes that broadcast",
                    f"{shapes[0]} and {shapes[1]}", "make the sizes equal, or 1")
        )  # fmt: skip
    one, two = np.broadcast_arrays(sides[0].index, sides[1].index)
    for i, j in dict.fromkeys(zip(one.ravel().tolist(), two.ravel().tolist(), strict=True)):
        yield sides[0].spans[i], sides[1].spans[j]


def _first(sides: Iterator[tuple[Spans, Spans]], op: str) -> Pair | None:
    found = [first_cell(combine(x, y, op)) for x, y in sides]
    return min((cell for cell in found if cell is not None), default=None)


def first_cell(spans: Spans) -> Pair | None:
    """Return the first visible (query, key), row by row."""
    some = np.flatnonzero(np.diff(spans.offsets))
    if not some.size:
        return None
    q = int(spans.starts[some[0]])
    return q, int(ranges_of(spans, q)[0, 0])
