"""Questions to a mask on a grid: exact, and in time of the runs, not of the cells."""

from hitherto.mask.questions.answer import Answer
from hitherto.mask.questions.blocks import Blocks, blocks
from hitherto.mask.questions.causal import is_causal
from hitherto.mask.questions.compare import difference, equal, subset
from hitherto.mask.questions.count import density, pairs, work
from hitherto.mask.questions.live import live_keys
from hitherto.mask.questions.rows import column, empty_rows, row

__all__ = [
    "Answer",
    "Blocks",
    "blocks",
    "column",
    "density",
    "difference",
    "empty_rows",
    "equal",
    "is_causal",
    "live_keys",
    "pairs",
    "row",
    "subset",
    "work",
]
