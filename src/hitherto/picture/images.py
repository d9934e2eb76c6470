"""Pixels as files: PNG by the standard library alone, SVG around it."""

import base64
import struct
import zlib
from html import escape

import numpy as np

from hitherto.picture.colors import hexadecimal
from hitherto.picture.layers import Layer, short

_LEFT, _TOP, _LINE = 72, 28, 18


def png(pixels: np.ndarray) -> bytes:
    """Write uint8 (rows, columns, 3) as a PNG file.

    Source: https://www.w3.org/TR/png-3/
    """
    rows, columns, _ = pixels.shape
    filtered = np.zeros((rows, 1 + 3 * columns), np.uint8)  # each row begins with its filter: none
    filtered[:, 1:] = pixels.reshape(rows, -1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    body = zlib.compress(filtered.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def svg(
    pixels: np.ndarray, title: str, queries: range, keys: range, found: list[Layer], size: int
) -> str:
    """Frame pixels with positions and a legend, as one SVG file.

    Args:
        pixels: uint8 (rows, columns, 3).
        title: what is drawn; also what a screen reader says.
        queries: positions from top to bottom.
        keys: positions from left to right.
        found: what the colours mean.
        size: width or height of the drawn grid, the larger one, in user units.
    """
    rows, columns, _ = pixels.shape
    cell = size / max(rows, columns)
    wide, high = round(columns * cell, 2), round(rows * cell, 2)
    total = _LEFT + max(wide, 9 * max(map(len, [title, *(layer.name for layer in found)]))) + 12
    data = base64.b64encode(png(pixels)).decode()
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" font-family="system-ui, sans-serif" '
        f'font-size="12" fill="currentColor" viewBox="0 0 {total:g} '
        f'{_TOP + high + 34 + _LINE * len(found):g}" width="{total:g}">',
        f"<title>{escape(title)}</title>",
        f'<image x="{_LEFT}" y="{_TOP}" width="{wide:g}" height="{high:g}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{wide:g}" height="{high:g}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".4"/>',
        *_ticks(queries, keys, wide, high),
        *_legend(found, _TOP + high + 34),
    ]
    return "\n".join([*body, "</svg>"])


def _ticks(queries: range, keys: range, wide: float, high: float) -> list[str]:
    """Mark some keys above and some queries on the left."""
    lines = []
    for share, key in _marks(keys, wide / 56):
        lines.append(_text(_LEFT + share * wide, _TOP - 6, short(key), "middle"))
    for share, query in _marks(queries, high / 24):
        lines.append(_text(_LEFT - 6, _TOP + share * high + 4, short(query), "end"))
    middle = _TOP + high / 2
    lines.append(
        f'<text x="12" y="{middle:g}" text-anchor="middle" transform="rotate(-90 12 {middle:g})">'
        "query</text>"
    )
    return [*lines, _text(_LEFT + wide / 2, _TOP + high + 18, "key", "middle")]


def _marks(positions: range, most: float) -> list[tuple[float, int]]:
    """Return (share of the length at the middle of its cell, position) of a few positions."""
    step = 1
    while len(positions) / step > max(most, 1):
        step *= 2
    first = -(-positions.start // step) * step
    places = range(first, positions.stop, step)
    return [((at - positions.start + 0.5) / len(positions), at) for at in places]


def _legend(found: list[Layer], top: float) -> list[str]:
    lines = []
    for row, layer in enumerate(found):
        y = top + _LINE * row
        lines.append(
            f'<rect x="{_LEFT}" y="{y:g}" width="12" height="12" stroke="currentColor" '
            f'stroke-opacity=".4" fill="{hexadecimal(layer.color)}"/>'
        )
        lines.append(_text(_LEFT + 18, y + 10, layer.name, "start"))
    return lines


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
