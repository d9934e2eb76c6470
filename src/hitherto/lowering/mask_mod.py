"""A mask as a function of four indices that a compiler can see through.

FlexAttention traces the function into its kernel. Written as intervals, `lo[q] <= k < hi[q]`, a row
of keys is a few comparisons, and torch's interval packing turns it into whole words on GPUs that
have them. Rows with more than INTERVALS spans are looked up as bits: 64 x 64 tiles, each distinct
one once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hitherto.lowering.block_tables import Runs
from hitherto.mask import Spans, blocks
from hitherto.mask.words import words_of

Array = np.ndarray
MaskMod = Callable[[Any, Any, Any, Any], Any]
"""(batch, head, query number, key number) -> bool, all torch tensors."""

INTERVALS = 8
"""Spans of a row up to which they are compared one by one: torch's own limit for packing."""

SIDE = 64
"""Queries and keys of a tile of bits."""


def mask_mod(each: tuple[Spans, ...], index: Array, device: Any = None) -> MaskMod:
    """Return the mask_mod of a mask.

    Args:
        each: its distinct Spans.
        index: which of them a (batch, head) has; an axis of size 1 is not looked at.
        device: of the tensors that it reads.
    Cost: 8 bytes a query and span, or 8 bytes a row of every distinct tile.
    """
    import torch

    which = torch.from_numpy(index).to(device)
    ends = intervals(each)
    if ends is None:
        slots, words = (torch.from_numpy(x).to(device) for x in _tiles(each))
        return _by_bits(slots, words, _picker(which))
    if len(each) == 1 and each[0].starts.size == 1 and each[0].q_start == 0:
        return _affine(each[0])
    tables = [[torch.from_numpy(x).to(device) for x in pair] for pair in ends]
    return _by_intervals(tables, _picker(which))


def intervals(each: tuple[Spans, ...]) -> list[tuple[Array, Array]] | None:
    """Return for the j-th span of a row its (first keys, last keys + 1): int32 (masks, queries).

    None where a row has more spans than INTERVALS. A row with fewer has intervals from 0 to 0.
    """
    most = max(int(np.diff(spans.offsets).max(initial=0)) for spans in each)
    if most > INTERVALS or any(spans.bits.any() for spans in each):
        return None
    return [
        (np.stack([_end(spans, j, "as") for spans in each]),
         np.stack([_end(spans, j, "bt") for spans in each]))
        for j in range(most)
    ]  # fmt: skip


def _picker(which: Any) -> Callable[[Any, Any], Any]:
    """Return which distinct mask a batch row and head have."""
    batch, heads = which.shape
    if batch > 1:
        return lambda b, h: which[b, h if heads > 1 else 0]
    return lambda b, h: which[0, h] if heads > 1 else 0


def _affine(spans: Spans) -> MaskMod:
    """Compare with ends that move with the row: no table at all."""
    ends = [[int(x) for x in end] for end in zip(spans.a, spans.s, spans.b, spans.t, strict=True)]
    k_len = spans.k_len

    def visible(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        seen = kv_idx < 0
        for a, s, end, t in ends:
            inside = kv_idx >= (a + q_idx if s else a)
            if t or end < k_len:
                inside = inside & (kv_idx < (end + q_idx if t else end))
            seen = inside if len(ends) == 1 else seen | inside
        return seen

    return visible


def _end(spans: Spans, j: int, side: str) -> Array:
    """Return where the j-th span of each row begins ("as") or stops ("bt"): int32 (queries,)."""
    counts, lengths = np.diff(spans.offsets), spans.stops - spans.starts
    has = counts > j
    entry = spans.offsets[:-1][has] + j
    at, slope = np.zeros((2, counts.size), np.int32)
    at[has], slope[has] = getattr(spans, side[0])[entry], getattr(spans, side[1])[entry]
    row = np.arange(spans.q_start, spans.q_stop, dtype=np.int32)
    return np.repeat(at, lengths) + np.repeat(slope, lengths) * row


def _by_intervals(ends: list[list[Any]], pick: Callable[[Any, Any], Any]) -> MaskMod:
    """Compare with ends read from tables: nothing in them is a constant of the compiled kernel."""

    def visible(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        if not ends:
            return kv_idx < 0
        at = (pick(b, h), q_idx)
        seen = (kv_idx >= ends[0][0][at]) & (kv_idx < ends[0][1][at])
        for lo, hi in ends[1:]:
            seen = seen | ((kv_idx >= lo[at]) & (kv_idx < hi[at]))
        return seen

    return visible


def _by_bits(slots: Any, words: Any, pick: Callable[[Any, Any], Any]) -> MaskMod:
    def visible(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        tile = slots[pick(b, h), q_idx // SIDE, kv_idx // SIDE]
        return (words[tile, q_idx % SIDE] >> (kv_idx % SIDE)) & 1 == 1

    return visible


def _tiles(each: tuple[Spans, ...]) -> tuple[Array, Array]:
    """Return (slots (masks, query tiles, key tiles), words (tiles, SIDE)); slot 0 is empty."""
    known = {bytes(8 * SIDE): 0, b"\xff" * (8 * SIDE): 1}
    shape = -(-each[0].q_len // SIDE), -(-each[0].k_len // SIDE)
    slots = np.zeros((len(each), *shape), np.int32)
    for into, spans in zip(slots, each, strict=True):
        found = blocks(spans, SIDE, SIDE)
        into[Runs.of(found, shape, full=True).cells()] = 1
        partial = Runs.of(found, shape, full=False)
        at = partial.cells()
        tiles = _bits(spans, partial, at)
        into[at] = [known.setdefault(tile.tobytes(), len(known)) for tile in tiles]
    return slots, np.frombuffer(b"".join(known), np.int64).reshape(-1, SIDE).copy()


def _bits(spans: Spans, partial: Runs, at: tuple[Array, Array]) -> Array:
    """Return the words of some tiles: uint64 (tiles, SIDE)."""
    still = np.zeros(partial.start.size, np.int64)
    area = Spans(
        *spans.grid, spans.q_start + SIDE * np.arange(partial.rows), partial.offsets,
        partial.start * SIDE, still, np.minimum(partial.stop * SIDE, spans.k_len), still,
        np.zeros(partial.rows, bool),
    )  # fmt: skip
    inside = spans & area
    run = np.repeat(np.arange(inside.starts.size), inside.stops - inside.starts)
    group, word, value = words_of(inside, np.arange(spans.q_start, spans.q_stop), run)
    tiles = np.zeros((at[0].size, SIDE), np.uint64)
    number = at[0] * partial.columns + at[1]
    tiles[np.searchsorted(number, group // SIDE * partial.columns + word), group % SIDE] = value
    return tiles
