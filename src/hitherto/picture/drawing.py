"""What `draw` returns: one picture of a mask, in the form that is asked for."""

import shutil
from functools import cached_property

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask import Mask
from hitherto.picture.images import png, svg
from hitherto.picture.layers import Layer, edges, layers, paint, put
from hitherto.picture.lines import fits, halves, plotted, shaded
from hitherto.picture.why import name

_LARGEST = 8192
"""Pixels of a side, at most."""


class Drawing:
    """A part of a mask's grid, ready to be shown: print it, or save its `svg()` or `png()`.

    Notebooks show it as SVG. All forms are counted from Spans, so no length is too great, and the
    colour of a pixel is the mean over exactly its cells.
    """

    def __init__(
        self, mask: Mask, queries: range, keys: range, title: str = "", *,
        width: int | None = None, color: bool = False, ascii: bool = False,
    ) -> None:  # fmt: skip
        self._mask, self._queries, self._keys, self._title = mask, queries, keys, title
        self._width, self._color, self._ascii = width, color, ascii
        self._seen = put(mask, queries, keys)

    @cached_property
    def _layers(self) -> list[Layer]:
        return layers(self._mask, self._seen, self._queries, self._keys)

    def __str__(self) -> str:
        width = shutil.get_terminal_size().columns if self._width is None else self._width
        found = self._layers if self._color else None
        if fits(self._queries, self._keys, width):
            body = plotted(self._seen, self._queries, self._keys, width, found)
        elif found and not self._ascii and len(self._queries) > 1:
            body = halves(self._queries, self._keys, width, found)
        else:
            body = shaded(self._seen, self._queries, self._keys, width, self._ascii)
        return "\n".join([self._title, *body] if self._title else body)

    __repr__ = __str__

    def pixels(self, size: int = 512) -> np.ndarray:
        """Return uint8 (rows, columns, 3): one pixel a cell, or a cell of many, at most `size`.

        Raises:
            MaskError: a size that is none.
        """
        if not 1 <= size <= _LARGEST:
            raise MaskError(
                explain("size", f"must be from 1 to {_LARGEST} pixels", size, "use 512")
            )
        rows, columns = min(size, len(self._queries)), min(size, len(self._keys))
        return paint(
            self._layers, edges(self._queries, rows), edges(range(len(self._keys)), columns)
        )

    def png(self, size: int = 512) -> bytes:
        """Return the pixels as a PNG file; small grids are enlarged to about `size`."""
        pixels = self.pixels(size)
        scale = max(1, size // max(pixels.shape[:2]))
        return png(pixels.repeat(scale, 0).repeat(scale, 1))

    def svg(self, size: int = 512) -> str:
        """Return an SVG file: the pixels, positions along two sides, and what the colours mean."""
        title = ", ".join(filter(None, (name(self._mask), self._title)))
        return svg(self.pixels(size), title, self._queries, self._keys, self._layers, size)

    def _repr_html_(self) -> str:
        return self.svg(360)
