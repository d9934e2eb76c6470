"""A grid parted by reason: visible, visible ahead, hidden by the first part of the mask, ..."""

from dataclasses import dataclass

import numpy as np

from hitherto.errors import MaskError
from hitherto.mask import And, Causal, Mask, Minus, Not, Shift, Spans, bind
from hitherto.picture import colors
from hitherto.picture.density import counts
from hitherto.picture.why import name


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The cells that share one reason. The layers of a grid hold each of its cells once."""

    name: str
    """The reason, in words."""

    color: colors.RGB
    """How it is painted."""

    spans: Spans
    """The cells; key 0 is the first key of the picture."""


def parts(mask: Mask) -> list[Mask]:
    """List what must all allow a cell: the masks joined by `&`, and `~b` of an `a - b`."""
    match mask:
        case And(left=a, right=b):
            return parts(a) + parts(b)
        case Minus(left=a, right=b):
            return [*parts(a), Not(b)]
    return [mask]


def put(mask: Mask, queries: range, keys: range) -> Spans:
    """Bind a mask to the part of the grid that is drawn; its first key becomes key 0."""
    moved = Shift(mask, k=-keys.start) if keys.start else mask
    spans = bind(moved, len(queries), len(keys), queries.start)
    assert isinstance(spans, Spans), "a picture shows one batch row and head"
    return spans


def layers(mask: Mask, seen: Spans, queries: range, keys: range) -> list[Layer]:
    """Part the grid by reason. A hidden cell belongs to the first part that hides it.

    Args:
        mask: a mask without axes.
        seen: the mask, `put` on this grid.
        queries: rows of the picture.
        keys: columns of the picture.
    Cost: O(runs) for each part of the mask.
    """
    past = put(Causal(), queries, keys)
    found = [
        Layer(name="visible", color=colors.VISIBLE, spans=seen & past),
        Layer(name="visible ahead of its query", color=colors.AHEAD, spans=seen - past),
    ]
    left = ~seen
    for index, part in enumerate(parts(mask)):
        inside = _inside(part, queries, keys)
        hides = left if inside is None else left - inside
        if hides.a.size:
            said = f"hidden by {name(part)}" if inside is not None else "hidden"
            found.append(Layer(name=said, color=colors.hidden(index), spans=hides))
        left = left & inside if inside is not None else left - left
    return [layer for layer in found if layer.spans.a.size]


def _inside(part: Mask, queries: range, keys: range) -> Spans | None:
    try:
        return put(part, queries, keys)
    except MaskError:
        return None  # too many spans alone, though not within the other parts


def paint(found: list[Layer], q_edges: np.ndarray, k_edges: np.ndarray) -> np.ndarray:
    """Mix the layers' colours in each pixel by their exact share of its cells.

    Args:
        found: layers that cover the grid.
        q_edges: increasing rows; pixel row i holds `q_edges[i] <= q < q_edges[i + 1]`.
        k_edges: the same of keys, counted from the picture's first.
    Returns:
        uint8 (pixel rows, pixel columns, 3).
    """
    whole = np.outer(np.diff(q_edges), np.diff(k_edges))
    mixed = np.zeros((*whole.shape, 3))
    for layer in found:
        share = counts(layer.spans, q_edges, k_edges) / whole
        mixed += share[..., None] * np.array(layer.color)
    return np.rint(mixed).astype(np.uint8)


def edges(positions: range, pieces: int) -> np.ndarray:
    """Cut positions into pieces as equal as whole numbers allow: pieces + 1 edges."""
    return positions.start + np.arange(pieces + 1, dtype=np.int64) * len(positions) // pieces


def short(position: int) -> str:
    """Spell a position: 512k and 1M where that is exact, else all its digits."""
    for size, unit in ((1 << 20, "M"), (1 << 10, "k")):
        if position and position % size == 0:
            return f"{position // size}{unit}"
    return str(position)
