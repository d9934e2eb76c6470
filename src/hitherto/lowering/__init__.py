"""The same mask in every other library's form: exact, or refused."""

from hitherto.lowering.grid import Grid
from hitherto.lowering.lower import ANY_MASK, TARGETS, lower, targets
from hitherto.lowering.recognise import Recognition, convert, recognise

__all__ = [
    "ANY_MASK",
    "TARGETS",
    "Grid",
    "Recognition",
    "convert",
    "lower",
    "recognise",
    "targets",
]
