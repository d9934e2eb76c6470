"""The named pattern nearest to a mask, which is wrong in a few cells."""

from collections.abc import Iterator

from hitherto.lowering.recognise.probe import Probe
from hitherto.lowering.recognise.search import CELL, bound, explained, is_regular
from hitherto.lowering.recognise.size import parts, size
from hitherto.mask import And, Everything, Mask, Minus, Nothing, Or, Spans, pairs

SLACKS = 1, 0.02
"""Cells of the probe that may be wrong: so many, or such a share of those that are visible."""

FEW_PARTS = 2
"""A mask made of more than these may hide a shorter one that is almost right."""

MOST_SHARE = 64
"""A pattern is near when it is wrong in at most one cell of so many."""


def nearest(target: tuple[Spans, ...]) -> Mask | None:
    """Search for the pattern of least size, counting `CELL` for every cell it gets wrong.

    None where every pattern found is wrong in more than one cell of `MOST_SHARE`.
    """
    found = [Nothing(), Everything(), *_almost(target, SLACKS)]
    near = [mask for mask in found if _is_near(mask, target)]
    return _best(near, target) if near else None


def plainer(mask: Mask, target: tuple[Spans, ...]) -> Mask:
    """Return a pattern without what is said of a few cells only, or the mask itself.

    A part for one cell is longer to say than the cell.
    """
    found = [mask, *(_almost(target, SLACKS[:1]) if parts(mask) > FEW_PARTS else [])]
    while True:
        best = _best([one for one in found if one == mask or _is_near(one, target)], target)
        found = [best, *_without_a_part(best)]
        if best == _best([one for one in found if one == mask or _is_near(one, target)], target):
            return best


def without_idle_parts(mask: Mask, target: tuple[Spans, ...]) -> Mask:
    """Return the mask without parts that change no cell."""
    for part in sorted(_without_a_part(mask), key=size):
        if not wrong(part, target):
            return without_idle_parts(part, target)
    return mask


def _almost(target: tuple[Spans, ...], slacks: tuple[float, ...]) -> Iterator[Mask]:
    """Yield the expressions found when a few cells may be wrong."""
    cells = sum(spans.q_len * spans.k_len for spans in target)
    if cells < MOST_SHARE or not is_regular(target):
        return
    probe = Probe(target)
    shown = int(probe.target.sum())
    for slack in slacks:
        yield from explained(target, probe, int(slack * shown) if slack < 1 else int(slack))


def _best(masks: list[Mask], target: tuple[Spans, ...]) -> Mask:
    return min(masks, key=lambda mask: size(mask) + CELL * wrong(mask, target))


def _is_near(mask: Mask, target: tuple[Spans, ...]) -> bool:
    cells = sum(spans.q_len * spans.k_len for spans in target)
    return wrong(mask, target) * MOST_SHARE <= cells


def _without_a_part(mask: Mask) -> Iterator[Mask]:
    """Yield what is left when one operator loses one of its sides."""
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b):
            yield from (a, b)
        case Minus(left=a, right=b):
            yield a
        case _:
            return
    for part in _without_a_part(a):
        yield type(mask)(part, b)
    for part in _without_a_part(b):
        yield type(mask)(a, part)


def wrong(mask: Mask, target: tuple[Spans, ...]) -> int:
    """Count the cells in which a mask differs from the target."""
    return sum(int(pairs(one ^ two)) for one, two in zip(bound(mask, target), target, strict=True))
