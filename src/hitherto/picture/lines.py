"""A mask as lines of text: marks where each pair fits, shades or half blocks where it does not."""

from itertools import groupby

import numpy as np

from hitherto.mask import Spans
from hitherto.picture.colors import terminal
from hitherto.picture.density import counts
from hitherto.picture.layers import Layer, edges, paint, short

_SHADES = {False: " ░▒▓█", True: " .:+#"}
"""Marks for no pair, three thirds of some, every pair; the second set is plain ASCII."""
_PLAIN = "\x1b[0m"
_AT_ONCE = 64
"""A grid with more rows than this is drawn in cells of many pairs: it no longer fits one screen."""


def fits(queries: range, keys: range, width: int) -> bool:
    """Tell whether there is room for a mark a pair."""
    return len(queries) <= _AT_ONCE and len(str(queries[-1])) + 1 + len(keys) <= width


def plotted(
    seen: Spans, queries: range, keys: range, width: int, found: list[Layer] | None
) -> list[str]:
    """Draw one mark a pair: '#' may attend, '.' may not; in colour where `found` has the layers."""
    margin, cell = len(str(queries[-1])), len(str(keys[-1])) + 1
    cell = cell if margin + cell * len(keys) <= width else 1
    marks = np.array([".", "#"], object)[_cells(seen, queries, keys)]
    for layer in found or []:
        chosen = _cells(layer.spans, queries, keys).astype(bool)
        marks[chosen] = f"\x1b[38;5;{terminal(layer.color)}m" + marks[chosen] + _PLAIN
    header = "".join(str(k).rjust(cell) for k in keys) if cell > 1 else " " + _ticks(keys)
    lines = [(" " * margin + header).rstrip()]
    gap = " " * (cell - 1)
    for q, row in zip(queries, marks, strict=True):
        lines.append(str(q).rjust(margin) + ("" if gap else " ") + "".join(gap + m for m in row))
    return lines + [_named(layer) for layer in found or []]


def _cells(spans: Spans, queries: range, keys: range) -> np.ndarray:
    """0 or 1 for each pair: the counts of a grid whose cells hold one pair."""
    return counts(spans, np.arange(queries.start, queries.stop + 1), np.arange(len(keys) + 1))


def _ticks(keys: range) -> str:
    """Key positions written over their own column, one in every ten columns."""
    line = ""
    for column in range(0, len(keys), 10):
        label = str(keys[column])
        if column + len(label) <= len(keys) or column == 0:
            line = line.ljust(column) + label
    return line


def shaded(seen: Spans, queries: range, keys: range, width: int, ascii: bool) -> list[str]:
    """Draw one mark a cell of many pairs: blank none, three shades by thirds, full block all."""
    columns = _columns(queries, keys, width)
    q_edges = edges(queries, max(1, min(max(columns // 2, 8), len(queries))))
    k_edges = edges(range(len(keys)), columns)
    seen_of = counts(seen, q_edges, k_edges)
    whole = np.outer(np.diff(q_edges), np.diff(k_edges))
    shades = np.where(
        seen_of == whole, 4, np.where(seen_of == 0, 0, 1 + np.minimum(3 * seen_of // whole, 2))
    )
    marks = np.array(list(_SHADES[ascii]))[shades]
    rows = ["".join(row) + "|" for row in marks]
    shades_said = _SHADES[ascii]
    key = f"{shades_said[4]} all visible, {shades_said[3:0:-1]} some (by thirds), blank none"
    return _framed(rows, q_edges[:-1], k_edges + keys.start, f"{_size(whole)}: {key}")


def halves(queries: range, keys: range, width: int, found: list[Layer]) -> list[str]:
    """Draw two pixels a character, coloured by the reasons of their cells."""
    columns = _columns(queries, keys, width)
    rows = max(2, min(columns, len(queries) // 2 * 2))
    q_edges, k_edges = edges(queries, rows), edges(range(len(keys)), columns)
    paints = [[terminal(color) for color in row] for row in paint(found, q_edges, k_edges).tolist()]
    lines = [_half_blocks(*pair) for pair in zip(paints[::2], paints[1::2], strict=True)]
    whole = np.outer(np.diff(q_edges), np.diff(k_edges))
    drawn = _framed(lines, q_edges[:-1:2], k_edges + keys.start, f"{_size(whole)}, colours mixed")
    return drawn + [_named(layer) for layer in found]


def _half_blocks(upper: list[int], lower: list[int]) -> str:
    """Write two rows of pixels as one line; a colour is said once for all its neighbours."""
    pairs = groupby(zip(upper, lower, strict=True))
    runs = (f"\x1b[38;5;{up};48;5;{low}m" + "▀" * len(list(run)) for (up, low), run in pairs)
    return "".join(runs) + _PLAIN


def _named(layer: Layer) -> str:
    return f"\x1b[38;5;{terminal(layer.color)}m█{_PLAIN} {layer.name}"


def _columns(queries: range, keys: range, width: int) -> int:
    room = max(1, min(64, width - len(short(queries[-1])) - 3, len(keys)))
    return 1 << (room.bit_length() - 1)  # a power of two gives cells of round sizes


def _framed(rows: list[str], firsts: np.ndarray, k_edges: np.ndarray, legend: str) -> list[str]:
    labels = [short(q) for q in firsts]
    margin = max(map(len, labels))
    lines = [" " * (margin + 1) + _coarse_ticks(k_edges)]
    lines += [f"{label.rjust(margin)} {row}" for label, row in zip(labels, rows, strict=True)]
    return [*lines, f"{' ' * margin} {legend}"]


def _coarse_ticks(k_edges: np.ndarray) -> str:
    line, every = "", 8 if k_edges[-1] < 10**7 else 16
    for column in range(0, len(k_edges) - 1, every):
        line = line.ljust(column) + short(k_edges[column])
    return line


def _size(whole: np.ndarray) -> str:
    low, high = int(whole.min()), int(whole.max())
    return f"a cell is {f'{high:,}' if low == high else f'{low:,} to {high:,}'} pairs"
