"""Masks that the shape of some cells suggests: one family a file.

Each function is given two regions, `on` (cells that must be visible) and `off` (cells that must be
hidden); what is in neither may be either. It yields masks of its family that may contain all of
`on`, as tight as can be, or that may avoid all of `off`, as loose as can be. A suggestion may be
wrong; the search tries each.
"""

from hitherto.lowering.recognise.candidates.axes import keys, queries
from hitherto.lowering.recognise.candidates.bands import bands, prefixes
from hitherto.lowering.recognise.candidates.diagonals import diagonals
from hitherto.lowering.recognise.candidates.drafts import trees
from hitherto.lowering.recognise.candidates.periods import periods
from hitherto.lowering.recognise.candidates.segments import segments
from hitherto.lowering.recognise.candidates.times import times
from hitherto.lowering.recognise.region import Region
from hitherto.mask import Band, Causal, Mask, Not

FAMILIES = bands, prefixes, periods, segments, keys, queries, diagonals, trees, times

COMPLEMENTED = bands, prefixes, periods, keys, queries, diagonals
"""Families whose complements are tried as well: `mask - Window(4)`, `mask | ~Chunks(8)`."""


def candidates(on: Region, off: Region) -> list[Mask]:
    """Return masks, each once, that may be part of an expression for `on` and not `off`."""
    found = dict.fromkeys(mask for family in FAMILIES for mask in family(on, off))
    hidden = dict.fromkeys(mask for family in COMPLEMENTED for mask in family(off, on))
    return [*found, *(Not(mask) for mask in hidden if not _is_half(mask))]


def _is_half(mask: Mask) -> bool:
    """Tell whether the complement is a band itself, and so among the bands."""
    return isinstance(mask, Causal) or (
        isinstance(mask, Band) and None in (mask.before, mask.after)
    )
