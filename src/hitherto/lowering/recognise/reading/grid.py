"""Grids of visible cells put together from what a library keeps."""

from collections.abc import Callable, Iterable

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask import Batch, Spans
from hitherto.mask.canonical import canonical
from hitherto.mask.questions.rows import joined
from hitherto.mask.spans import offsets_of

Array = np.ndarray


def first_query(q_len: int, k_len: int, q_start: int | None) -> int:
    """Return `q_start`, or what makes the queries the last of the keys, or 0 where they are more.

    Raises:
        MaskError: lengths or a start below 0.
    """
    start = max(k_len - q_len, 0) if q_start is None else q_start
    if min(q_len, k_len, start) < 0:
        raise MaskError(
            explain("q_len, k_len, q_start", "must be >= 0", (q_len, k_len, start), "count again")
        )
    return start


def by_ranges(row: Array, lo: Array, hi: Array, grid: tuple[int, int, int]) -> Spans:
    """Return the grid of ranges `[lo, hi)` of rows counted from 0, in any order, that may overlap.

    Args:
        row: the row of each range.
        lo: its first key.
        hi: one past its last key; past the grid's ends it is clipped.
        grid: (q_start, q_len, k_len).
    """
    q_start, q_len, k_len = grid
    lo, hi = np.clip(lo, 0, k_len), np.clip(hi, 0, k_len)
    some, width = (lo < hi) & (row >= 0) & (row < q_len), k_len + 1
    found = joined((row * width + lo)[some], (row * width + hi)[some])
    at, first = np.divmod(found[:, 0], width)
    still = np.zeros(at.size, np.int64)
    return canonical(
        Spans(
            q_start, q_len, k_len, np.arange(q_start, q_start + q_len), offsets_of(at, q_len),
            first, still, found[:, 1] - at * width, still, np.zeros(q_len, bool),
        )
    )  # fmt: skip


def by_cells(
    strips: Iterable[Array], q_len: int, k_len: int, q_start: int, bitorder: str | None = None
) -> Spans:
    """Return the grid of bools that come some rows at a time, in order.

    Args:
        strips: bool (rows, keys), or packed uint8 (rows, bytes) with `bitorder`.
        q_len: rows in all.
        k_len: keys.
        q_start: position of the first row.
        bitorder: "little" or "big" where the strips are packed.
    Cost: O(cells) once, and memory for the spans found and one strip.
    """
    parts, row = [], q_start
    for strip in strips:
        parts.append(_runs(_words(strip, k_len, bitorder), row, k_len))
        row += len(strip)
    return canonical(_stacked(parts, q_start, q_len, k_len))


def _words(strip: Array, k_len: int, bitorder: str | None) -> Array:
    """Return rows of cells as words of 64 keys, key 0 in the lowest bit."""
    if bitorder is None:
        strip = np.packbits(strip, axis=1, bitorder="little")
    elif bitorder == "big":
        strip = np.packbits(np.unpackbits(strip, axis=1), axis=1, bitorder="little")
    words = np.zeros((len(strip), -(-k_len // 64) * 8), np.uint8)
    words[:, : -(-k_len // 8)] = strip[:, : -(-k_len // 8)]
    if k_len % 8:
        words[:, k_len // 8] &= (1 << k_len % 8) - 1
    return words.view(np.uint64)


def _runs(words: Array, q_start: int, k_len: int) -> Spans:
    row, word = np.nonzero(words)
    still = np.zeros(row.size, np.int64)
    return canonical(
        Spans(
            q_start, len(words), k_len, np.arange(q_start, q_start + len(words)),
            offsets_of(row, len(words)), word, still, words[row, word].view(np.int64), still,
            np.ones(len(words), bool),
        )
    )  # fmt: skip


def _stacked(parts: list[Spans], q_start: int, q_len: int, k_len: int) -> Spans:
    """Put grids of the same keys one below the other."""
    if not parts:
        still = np.zeros(0, np.int64)
        return Spans(q_start, q_len, k_len, still, np.zeros(1, np.int64), *[still] * 4, still > 0)
    ends = np.cumsum([0] + [part.a.size for part in parts])
    offsets = [part.offsets[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
    arrays = [np.concatenate([getattr(p, name) for p in parts]) for name in ("a", "s", "b", "t")]
    return Spans(
        q_start, q_len, k_len, np.concatenate([part.starts for part in parts]),
        np.concatenate([*offsets, ends[-1:]]), *arrays,
        np.concatenate([part.bits for part in parts]),
    )  # fmt: skip


def batch_of(shape: tuple[int, int], each: Callable[[int, int], Spans]) -> Batch:
    """Return the grids of every batch row and head, each distinct one once."""
    known: dict[Spans, int] = {}
    index = np.zeros(shape, np.int64)
    for b, h in np.ndindex(shape):
        index[b, h] = known.setdefault(each(b, h), len(known))
    return Batch(index, tuple(known))


def common(one: Batch, two: Batch) -> Batch:
    """Return what both show; their axes broadcast."""
    x, y = np.broadcast_arrays(one.index, two.index)
    return batch_of(x.shape, lambda b, h: one.spans[x[b, h]] & two.spans[y[b, h]])


def lone(spans: Spans) -> Batch:
    """Return a grid without batch or heads."""
    return Batch(np.zeros((1, 1), np.int64), (spans,))


def needed(name: str, value: int | None) -> int:
    """Return a length, or say that it must be given."""
    if value is None:
        raise MaskError(
            explain(f"recognise({name})", "must be given where x does not say it", None,
                    "pass q_len and k_len")
        )  # fmt: skip
    return value


def ints(argument: str, value: object, ndim: int | None = None) -> Array:
    """Return ints as int64 numpy, from numpy, torch, jax or lists.

    Raises:
        MaskError: when they are not ints, or not of so many axes.
    """
    try:
        array = np.asarray(plain(value))
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind not in "iub" or (ndim is not None and array.ndim != ndim):
        axes = "" if ndim is None else f" with {ndim} axes"
        raise MaskError(
            explain(argument, f"must be ints{axes}", f"{array.dtype} of shape {array.shape}",
                    "pass the array as the library has it")
        )  # fmt: skip
    return array.astype(np.int64)


def plain(value: object) -> object:
    """Return a torch tensor as one that numpy can read."""
    return value.detach().cpu() if hasattr(value, "detach") else value
