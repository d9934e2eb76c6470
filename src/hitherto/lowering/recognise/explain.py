"""An expression for every head and batch row of a grid: the searches put together."""

from dataclasses import fields, replace

import numpy as np

from hitherto.lowering.recognise.nearest import nearest, plainer, without_idle_parts
from hitherto.lowering.recognise.region import Array
from hitherto.lowering.recognise.search import simplest
from hitherto.mask import Batch, Mask, PerHead, Shift, Spans, Table
from hitherto.mask.expression import _Leaf, _Pair

Found = tuple[Mask, Mask]
"""(what equals the grid, the pattern that is it or near it)."""


def explained_heads(grid: Batch) -> Found:
    """Explain each distinct head once."""
    known: dict[tuple[int, ...], Found] = {}
    heads = [tuple(column) for column in grid.index.T.tolist()]
    for column in heads:
        if column not in known:
            known[column] = _explained(grid, column)
    if len(known) == 1:
        return known[heads[0]]
    masks, patterns = zip(*(known[column] for column in heads), strict=True)
    return PerHead(masks), PerHead(patterns)


def _explained(grid: Batch, column: tuple[int, ...]) -> Found:
    """Explain the distinct batch rows of a head together, as one mask with a batch axis."""
    rows, back = np.unique(column, return_inverse=True)
    target = tuple(grid.spans[i] for i in rows)
    mask = simplest(target)
    if mask is None:
        mask, near = _table(target), nearest(target)
        pattern = mask if near is None else near
    else:
        mask = without_idle_parts(mask, target)
        pattern = plainer(mask, target)
    if len(target) == 1:
        return mask, pattern
    return repeated(mask, back), repeated(pattern, back)


def _table(target: tuple[Spans, ...]) -> Mask:
    cells = np.stack([spans.dense() for spans in target])
    table = Table(cells[0] if len(cells) == 1 else cells)
    start = target[0].q_start
    return Shift(table, q=start) if start else table


def repeated(mask: Mask, rows: Array) -> Mask:
    """Return a mask whose batch row i is row `rows[i]` of the mask given."""
    match mask:
        case _Pair(left=a, right=b):
            return type(mask)(repeated(a, rows), repeated(b, rows))  # type: ignore[call-arg]
        case _Leaf():
            arrays = {
                field.name: getattr(mask, field.name)[rows]
                for field in fields(mask)  # type: ignore[arg-type]
                if _is_batched(mask, getattr(mask, field.name))
            }
            return replace(mask, **arrays) if arrays else mask  # type: ignore[type-var]
    if hasattr(mask, "mask"):
        return replace(mask, mask=repeated(mask.mask, rows))  # type: ignore[type-var]
    return mask


def _is_batched(mask: Mask, value: object) -> bool:
    least = 3 if isinstance(mask, Table) else 2
    return isinstance(value, np.ndarray) and value.ndim >= least
