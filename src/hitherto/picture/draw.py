"""A mask as text: a '#' and '.' grid where it fits, exact density in shades where it does not."""

import shutil

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask import Mask, bind_batch, evaluate
from hitherto.picture.choice import chosen
from hitherto.picture.density import counts

_MOST_ROWS = 64
"""A grid with more rows than this is drawn in shades: it no longer fits one screen."""
_SHADES = {False: " ░▒▓█", True: " .:+#"}
"""Marks for no pair, three thirds of some, every pair; the second set is plain ASCII."""
_MARK, _AHEAD, _FAINT, _PLAIN = "\x1b[36m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


def draw(
    mask: Mask,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    q_start: int | None = None,
    q_pos: range | None = None,
    k_pos: range | None = None,
    batch: int = 0,
    head: int = 0,
    width: int | None = None,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """Draw who may attend to whom: queries down, keys across, as text.

    Meaning: '#' may attend, '.' may not. A grid too large for that is cut into cells that cover
    whole ranges of queries and keys; a blank cell holds no visible pair, a full block holds every
    pair, and the three shades between are the thirds. Both are exact, at any length.

        >>> print(draw(Causal() & (Window(3) | Prefix(1)), q_pos=range(2, 6), k_pos=range(6)))
          0 1 2 3 4 5
        2 # # # . . .
        3 # # # # . .
        4 # . # # # .
        5 # . . # # #

    Args:
        mask: the mask; of one with batch or head axes, one row and head is drawn, and named.
        q_len: number of queries; needed unless `q_pos` is given.
        k_len: number of keys; `q_len` unless given.
        q_start: position of the first query; the queries are the last of the keys unless given.
        q_pos: draw these queries instead, a range with step 1.
        k_pos: draw only these keys, a range with step 1; all unless given.
        batch: batch row to draw, from 0.
        head: head to draw, from 0.
        width: columns of text at most; the terminal's unless given, 80 when there is none.
        color: add ANSI colours; keys ahead of their query are red.
        ascii: use no character outside ASCII.

    Returns:
        Lines joined by newlines, without one at the end.

    Raises:
        MaskError: when lengths or ranges do not make a grid. Fix: pass q_len, or q_pos and k_pos.
    Cost: O(runs x columns of the picture), never queries x keys.
    """
    queries, keys = _grid(q_len, k_len, q_start, q_pos, k_pos)
    width = shutil.get_terminal_size().columns if width is None else width
    title, mask = chosen(mask, batch, head)
    cell = len(str(keys[-1])) + 1
    margin = len(str(queries[-1]))
    if len(queries) > _MOST_ROWS or margin + 1 + len(keys) > width:
        body = _shaded(mask, queries, keys, width, color, ascii)
    else:
        if margin + cell * len(keys) > width:
            cell = 1
        body = _plotted(mask, queries, keys, cell, color)
    return "\n".join([title, *body] if title else body)


def _grid(
    q_len: int | None,
    k_len: int | None,
    q_start: int | None,
    q_pos: range | None,
    k_pos: range | None,
) -> tuple[range, range]:
    """Settle the two ranges of positions, or say what is missing."""
    if q_pos is None:
        if q_len is None:
            raise MaskError(
                explain(
                    "draw(q_len)",
                    "is needed to know the grid",
                    None,
                    "pass q_len, or q_pos and k_pos",
                )
            )
        total = q_len if k_len is None else k_len
        start = total - q_len if q_start is None else q_start
        q_pos = range(start, start + q_len)
    keys = k_pos if k_pos is not None else range(q_pos.stop if k_len is None else k_len)
    for name, some in (("q_pos", q_pos), ("k_pos", keys)):
        if some.step != 1 or len(some) == 0 or some.start < 0:
            raise MaskError(
                explain(f"draw({name})", "must be a non-empty range of positions >= 0 with step 1",
                        some, "check the lengths; q_start must leave every query at 0 or later")
            )  # fmt: skip
    return q_pos, keys


def _plotted(mask: Mask, queries: range, keys: range, cell: int, color: bool) -> list[str]:
    """Draw one mark a pair."""
    grid = evaluate(mask, np.arange(queries.start, queries.stop), np.arange(keys.start, keys.stop))
    margin = len(str(queries[-1]))
    header = "".join(str(k).rjust(cell) for k in keys) if cell > 1 else " " + _ticks(keys, 10)
    lines = [(" " * margin + header).rstrip()]
    for q, row in zip(queries, grid, strict=True):
        marks = "".join(
            " " * (cell - 1) + _paint("#" if seen else ".", seen, k > q, color)
            for k, seen in zip(keys, row, strict=True)
        )
        lines.append(str(q).rjust(margin) + ("" if cell > 1 else " ") + marks)
    return lines


def _paint(mark: str, seen: bool, ahead: bool, color: bool) -> str:
    if not color:
        return mark
    return (_FAINT if not seen else _AHEAD if ahead else _MARK) + mark + _PLAIN


def _ticks(keys: range, every: int) -> str:
    """Key positions written over their own column, one in every so many columns."""
    line = ""
    for column in range(0, len(keys), every):
        label = str(keys[column])
        if column + len(label) <= len(keys) or column == 0:
            line = line.ljust(column) + label
    return line


def _shaded(
    mask: Mask, queries: range, keys: range, width: int, color: bool, ascii: bool
) -> list[str]:
    """Draw one mark a cell of many pairs."""
    room = max(1, min(64, width - len(_short(queries[-1])) - 3, len(keys)))
    columns = 1 << (room.bit_length() - 1)  # a power of two gives cells of round sizes
    rows = max(1, min(max(columns // 2, 8), len(queries)))
    q_edges, k_edges = _edges(queries, rows), _edges(keys, columns)
    spans = bind_batch(mask, len(queries), keys.stop, queries.start)[0, 0]
    seen = counts(spans, q_edges, k_edges)
    whole = np.outer(np.diff(q_edges), np.diff(k_edges))
    shades = np.where(
        seen == whole, 4, np.where(seen == 0, 0, 1 + np.minimum(3 * seen // whole, 2))
    )
    labels = [_short(q) for q in q_edges[:-1]]
    margin = max(map(len, labels))
    marks = np.array(list(_SHADES[ascii]))
    lines = [" " * (margin + 1) + _coarse_ticks(k_edges)]
    ahead = k_edges[:-1] >= q_edges[1:, None]
    for label, row, future in zip(labels, marks[shades], ahead, strict=True):
        text = "".join(_paint(*cell, color) for cell in zip(row, row != " ", future, strict=True))
        lines.append(f"{label.rjust(margin)} {text}{_paint('|', False, False, color)}")
    lines.append(_legend(whole, _SHADES[ascii], margin))
    return lines


def _edges(positions: range, parts: int) -> np.ndarray:
    """Cut positions into parts as equal as whole numbers allow; returns parts + 1 edges."""
    return positions.start + np.arange(parts + 1, dtype=np.int64) * len(positions) // parts


def _coarse_ticks(k_edges: np.ndarray) -> str:
    line, every = "", 8 if k_edges[-1] < 10**7 else 16
    for column in range(0, len(k_edges) - 1, every):
        line = line.ljust(column) + _short(k_edges[column])
    return line


def _legend(whole: np.ndarray, shades: str, margin: int) -> str:
    low, high = int(whole.min()), int(whole.max())
    size = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    key = f"{shades[4]} all visible, {shades[3:0:-1]} some (by thirds), blank none"
    return f"{' ' * margin} a cell is {size} pairs: {key}"


def _short(position: int) -> str:
    """Spell a position: 512k and 1M where that is exact, else all its digits."""
    for size, unit in ((1 << 20, "M"), (1 << 10, "k")):
        if position and position % size == 0:
            return f"{position // size}{unit}"
    return str(position)
