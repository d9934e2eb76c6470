"""Back again: from any library's mask to the expression that says it."""

from hitherto.lowering.recognise.forms import Bits, CuSeqlens, Padding, PositionIds
from hitherto.lowering.recognise.recognise import Recognition, convert, recognise

__all__ = ["Bits", "CuSeqlens", "Padding", "PositionIds", "Recognition", "convert", "recognise"]
