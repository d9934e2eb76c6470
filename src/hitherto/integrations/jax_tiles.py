"""Which tiles of queries x keys a mask touches, as a static list that one compiled loop scans."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int, UInt8

from hitherto.attention.rows import cells, places
from hitherto.mask import Mask, Spans, bind_batch, blocks

Array = np.ndarray

ROWS, KEYS = 128, 128
"""Queries and keys of a tile; less where there are fewer of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tiles:
    """The touched tiles of a mask on a grid; those not listed are hidden."""

    rows: int
    """Queries of a tile."""

    keys: int
    """Keys of a tile; a multiple of 8."""

    by_batch: bool
    """The mask differs between batch rows: a tile is of one."""

    by_head: bool
    """The mask differs between heads: a tile is of one."""

    places: Int[Array, "tiles 5"]
    """(batch row, head, query block, key block, pattern); the first two are 0 where all share."""

    patterns: UInt8[Array, "patterns rows key_bytes"]
    """The distinct sets of visible cells, 8 keys to a byte, low bit first; the first is full."""


@lru_cache(maxsize=32)
def tiles(mask: Mask, q_len: int, k_len: int, q_start: int | None = None) -> Tiles:
    """List the tiles of a mask.

    Cost: O(visible tiles), once for each mask and grid.
    """
    bound = bind_batch(mask, q_len, k_len, q_start)
    rows, keys = min(ROWS, q_len), min(KEYS, -(-max(k_len, 1) // 8) * 8)
    patterns = {np.full((rows, keys // 8), 255, np.uint8).tobytes(): 0}
    parts = [_tiles(spans, rows, keys, patterns) for spans in bound.spans]
    listed = [
        np.concatenate([np.broadcast_to(at, (len(part), 2)), part], axis=1)
        for at in np.ndindex(bound.index.shape)
        for part in [parts[bound.index[at]]]
    ]
    return Tiles(
        rows=rows, keys=keys, by_batch=bound.index.shape[0] > 1, by_head=bound.index.shape[1] > 1,
        places=np.concatenate(listed).astype(np.int32),
        patterns=np.frombuffer(b"".join(patterns), np.uint8).reshape(-1, rows, keys // 8),
    )  # fmt: skip


def _tiles(spans: Spans, rows: int, keys: int, patterns: dict[bytes, int]) -> Int[Array, "tiles 3"]:
    """List (query block, key block, pattern) of one Spans, adding what is new to `patterns`."""
    touched, listed = blocks(spans, rows, keys), []
    for i, start in enumerate(range(0, spans.q_len, rows)):
        stop = min(start + rows, spans.q_len)
        runs = slice(touched.offsets[i], touched.offsets[i + 1])
        ends = zip(touched.start[runs], touched.stop[runs], touched.full[runs], strict=True)
        for first, last, full in ends:
            block = np.arange(first, last)
            # The grid may end inside a tile, whose rest is then hidden.
            cut = stop - start < rows or last * keys > spans.k_len
            pattern = np.zeros(block.size, np.int64)
            if cut or not full:
                pattern[:] = [
                    patterns.setdefault(tile.tobytes(), len(patterns))
                    for tile in _packed(spans, start, stop, first * keys, last * keys, rows, keys)
                ]
            listed.append(np.stack([np.full(block.size, i), block, pattern], 1))
    return np.concatenate([np.zeros((0, 3), np.int64), *listed])


def _packed(
    spans: Spans, start: int, stop: int, lo: int, hi: int, rows: int, keys: int
) -> UInt8[Array, "tiles rows key_bytes"]:
    """Pack the cells of neighbouring tiles of one query block."""
    inside = np.arange(lo, min(hi, spans.k_len))
    seen: Bool[Array, "queries keys"] = np.zeros((rows, hi - lo), bool)
    seen[: stop - start, : inside.size] = cells(
        stop - start, inside.size, places(spans, start, stop, inside)
    )
    return np.packbits(seen.reshape(rows, -1, keys).swapaxes(0, 1), axis=2, bitorder="little")
