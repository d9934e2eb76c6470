"""Segments: positions that fall into classes which do not see one another."""

from collections.abc import Iterator

import numpy as np

from hitherto.lowering.recognise.region import Array, Region
from hitherto.mask import Mask, Segments


def segments(on: Region, off: Region) -> Iterator[Mask]:
    """Yield the finest classes that no visible cell crosses: end to end, by rows, and mingled."""
    ids = np.cumsum(on.cuts, 1) - 1
    touched = _touched(on)
    for found in (ids, np.where(touched, ids, -1)):
        if 1 < len(np.unique(found)) <= on.positions // 2 + 1 or (found < 0).any():
            yield Segments(renumbered(found))
    yield from _by_rows(on)
    yield from _mingled(on)


def _touched(on: Region) -> Array:
    """Tell which positions are a query that sees something or a key that is seen."""
    touched = np.zeros((on.batch, on.positions), bool)
    touched[:, on.q_start : on.q_stop] |= on.rows
    touched[:, : on.k_len] |= on.keys
    return touched


def _by_rows(on: Region) -> Iterator[Mask]:
    """Classes of rows whose keys, first to last, overlap: queries and keys need not line up."""
    held, joined = on.hulls
    classes = np.cumsum(joined <= on.slack, 1)
    at = np.minimum(on.first, on.k_len - 1)
    row = np.where(on.rows, np.take_along_axis(classes, at, 1), -1)
    key = np.where(held > on.slack, classes, -1)
    yield from paired(on, row, key)


def _mingled(on: Region) -> Iterator[Mask]:
    """Classes in any order: follow each query to its first key, that key to its own, and so on."""
    if on.q_start or on.q_len < on.k_len:
        return
    row = np.where(on.rows, on.first, -1)
    known = np.pad(row, ((0, 0), (0, on.positions - on.q_len)), constant_values=-1)
    for _ in range(on.positions.bit_length()):
        known = np.where(known >= 0, np.take_along_axis(known, np.maximum(known, 0), 1), -1)
    if len(np.unique(known)) > 1 and (known[:, : on.q_len][on.rows] >= 0).all():
        yield Segments(renumbered(known))


def paired(on: Region, row: Array, key: Array) -> Iterator[Mask]:
    """Yield the classes of queries and of keys: one array where they agree, else two."""
    ids = np.full((on.batch, on.positions), -1)
    k_ids = np.full((on.batch, on.positions), -1)
    ids[:, on.q_start : on.q_stop] = row
    k_ids[:, : on.k_len] = key
    rows = np.zeros(on.positions, bool)
    rows[on.q_start : on.q_stop] = True
    both = rows & (np.arange(on.positions) < on.k_len)
    if (ids == k_ids)[:, both].all():
        yield Segments(renumbered(np.where(rows, ids, k_ids)))
    else:
        ids, k_ids = renumbered(ids[:, : on.q_stop], k_ids[:, : on.k_len])
        yield Segments(ids, k_ids)


def renumbered(*arrays: Array) -> Array | list[Array]:
    """Count each batch row's classes from 0 as they come; one array where the rows are alike."""
    rows = [_in_order(*parts) for parts in zip(*arrays, strict=True)]
    done = [np.stack(parts) for parts in zip(*rows, strict=True)]
    done = [array[0] if (array == array[:1]).all() else array for array in done]
    return done[0] if len(done) == 1 else done


def _in_order(*parts: Array) -> list[Array]:
    """Renumber the classes of one batch row; -1 stays."""
    values = np.concatenate(parts)
    classes, first, back = np.unique(values, return_index=True, return_inverse=True)
    real = classes >= 0
    number = np.full(classes.size, -1)
    number[np.flatnonzero(real)[np.argsort(first[real])]] = np.arange(real.sum())
    return np.split(number[back], np.cumsum([part.size for part in parts])[:-1])
