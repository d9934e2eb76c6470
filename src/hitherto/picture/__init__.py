"""Pictures of masks for the terminal, and the reason for every cell."""

from hitherto.picture.draw import draw
from hitherto.picture.why import why

__all__ = ["draw", "why"]
