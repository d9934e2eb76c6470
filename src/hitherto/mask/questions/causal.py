"""Does no query see its future? Decided on a grid, or for every length."""

from hitherto.errors import MaskError
from hitherto.mask.bind import Batch, bind
from hitherto.mask.expression import And, Mask, Or, Xor
from hitherto.mask.positions import Causal
from hitherto.mask.questions.answer import Answer, Bound, Pair, bound
from hitherto.mask.questions.compare import subset
from hitherto.mask.questions.reach import bounds, reach
from hitherto.mask.spans import Spans

LONGEST = 1 << 22
"""Positions of the largest grid on which a length-free question is decided."""

SAMPLE = 256
"""Positions tried for a counterexample where an opaque part leaves it open."""


def is_causal(
    subject: Mask | Bound, q_len: int | None = None, k_len: int | None = None,
    q_start: int | None = None,
) -> Answer:  # fmt: skip
    """Decide whether every visible key is at or before its query.

    On a grid (Spans, or a mask with lengths) the answer is always yes or no, the witness the first
    future cell. Of a mask alone it is about every length: yes and no are proofs, unknown means that
    an opaque part (`Predicate`, `RandomBlocks`) or a very long period leaves it open.
    """
    if isinstance(subject, Mask) and q_len is None:
        return _every_length(subject)
    grid = bound(subject, q_len, k_len, q_start)
    found = [_first_future(s) for s in (grid.spans if isinstance(grid, Batch) else (grid,))]
    worst = min((cell for cell in found if cell is not None), default=None)
    return _answer(worst, "no visible key is after its query on this grid")


def _answer(cell: Pair | None, proof: str) -> Answer:
    if cell is None:
        return Answer(True, None, proof)
    return Answer(False, cell, f"query {cell[0]} sees key {cell[1]}, {cell[1] - cell[0]} ahead")


def _first_future(spans: Spans) -> Pair | None:
    return subset(spans, bind(Causal(), *spans.shape, spans.q_start)).witness


def _every_length(mask: Mask) -> Answer:
    parts = {And: any, Or: all, Xor: all}.get(type(mask))
    if parts and parts(_every_length(part).value for part in (mask.left, mask.right)):
        return Answer(True, None, "no query of any length sees a later key")
    inner, outer = bounds(mask)
    try:
        answer = _decided(outer)
        if answer.value is not False or inner == outer:
            return answer
        answer = _decided(inner)
        if answer.value is False:
            return answer
        sampled = is_causal(mask, *_grid(mask, SAMPLE), 0)
    except MaskError as error:
        return Answer(None, None, f"the mask cannot be put on a grid from 0: {error}")
    if sampled.value is False:
        return sampled
    return Answer(None, None, f"an opaque part may see the future beyond {SAMPLE} positions")


def _decided(mask: Mask) -> Answer:
    q_len, k_len = _grid(mask)
    if reach(mask).side > LONGEST and max(q_len, k_len) > LONGEST:
        return Answer(None, None, f"the mask repeats only after {reach(mask).side:,} positions")
    found = is_causal(mask, q_len, k_len, 0).witness
    return _answer(found, "no query of any length sees a later key")


def _grid(mask: Mask, side: int | None = None) -> tuple[int, int]:
    """Return (q_len, k_len) on which all that the mask does happens, or a square of `side`.

    An axis ends where its data end; the other must then reach past them.
    """
    ends = reach(mask)
    if side is None:
        side = ends.side + max(ends.q_data or 0, ends.k_data or 0)
    return (
        side if ends.q_data is None else ends.q_data,
        side if ends.k_data is None else ends.k_data,
    )
