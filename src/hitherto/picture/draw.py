"""The door to pictures: a mask, a grid, and what of it to show."""

from hitherto.errors import MaskError, explain
from hitherto.mask import Mask
from hitherto.picture.choice import chosen
from hitherto.picture.drawing import Drawing


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
) -> Drawing:
    """Draw who may attend to whom: queries down, keys across.

    Meaning: '#' may attend, '.' may not. A grid too large for that is cut into cells that cover
    whole ranges of queries and keys; a blank cell holds no visible pair, a full block holds every
    pair, and the three shades between are the thirds. Both are exact, at any length.

    In colour, as SVG and as PNG, a cell's colour says why: blue is visible, vermilion visible ahead
    of its query, and what is hidden takes the colour of the first part of the mask that hides it.

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
        color: add ANSI colours; a large grid is then drawn in half blocks, two pixels a mark.
        ascii: use no character outside ASCII.

    Returns:
        a Drawing: print it, or ask for its `svg()`, `png()` or `pixels()`; notebooks show it.

    Raises:
        MaskError: when lengths or ranges do not make a grid. Fix: pass q_len, or q_pos and k_pos.
    Cost: O(runs x columns of the picture), never queries x keys.
    """
    queries, keys = _grid(q_len, k_len, q_start, q_pos, k_pos)
    title, mask = chosen(mask, batch, head)
    return Drawing(mask, queries, keys, title, width=width, color=color, ascii=ascii)


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
