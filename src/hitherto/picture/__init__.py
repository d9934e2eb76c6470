"""Pictures of masks for a terminal, a file or a notebook, and the reason for every cell."""

from hitherto.picture.draw import draw
from hitherto.picture.drawing import Drawing
from hitherto.picture.why import why

__all__ = ["Drawing", "draw", "why"]
