"""splash attention's masks (jax.experimental.pallas.ops.tpu.splash_attention, jax 0.10.2).

    True means             attend
    LocalMask((l, r))      keeps l + 1 + r keys: row i sees `i + offset - l .. i + offset + r`
    causal when q != k     by `offset`: row i sees keys `0 .. i + offset`
    ChunkedCausalMask      has no offset: chunks and causality are counted from row 0
    empty row              "undefined softmax", says its source: refused
    axes                   one mask a head (MultiHeadMask); none for the batch: refused

A mask that none of its classes says becomes a `Mask` that answers for any tile from Spans, so
nothing dense is built. The kernel runs on TPU; the masks are plain numpy.

Source: https://github.com/jax-ml/jax/blob/main/jax/experimental/pallas/ops/tpu/splash_attention/
splash_attention_mask.py
"""

from functools import cache
from typing import Any

import numpy as np

from hitherto.lowering.empty import refuse_empty_rows
from hitherto.lowering.grid import Grid, refuse
from hitherto.lowering.library import library
from hitherto.lowering.outer import band_of, outer
from hitherto.mask import Band, Causal, Chunks, Mask, Spans, bind

MODULE = "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask"


def splash(grid: Grid) -> Any:
    """Return a splash `Mask`, or a MultiHeadMask when the mask differs between heads.

    Raises:
        Unsupported: a mask that differs between batch rows (vmap over them, or use SegmentIds); a
            row that sees no key.
    """
    if grid.batch > 1 and len({tuple(row) for row in grid.bound.index}) > 1:
        cell = grid.first_difference(grid.bound[0, 0])
        raise refuse("splash", grid, cell, "its masks have no batch axis",
                     "one mask a batch row, and vmap over the kernels")  # fmt: skip
    refuse_empty_rows("splash", grid, "refuse")
    masks = [_mask(grid, spans) for spans in grid.bound.spans]
    if grid.heads == 1:
        return masks[0]
    return library(MODULE, "jax").MultiHeadMask([masks[i] for i in grid.bound.index[0]])


def _mask(grid: Grid, spans: Spans) -> Any:
    """Return the library's own class where one says it, since its kernel can compute those."""
    theirs = library(MODULE, "jax")
    shape, offset, filled = (grid.q_len, grid.k_len), grid.q_start, outer(spans)
    if filled == spans and (band := band_of(filled)) is not None:
        before = None if band[0] >= grid.q_start + grid.q_len - 1 else band[0]
        after = None if band[1] >= grid.k_len - 1 - offset else band[1]
        if _says(spans, Band(before, after)):
            if before is None and after is None:
                return theirs.FullMask(shape)
            if before is None and after == 0:
                return theirs.CausalMask(shape, offset=offset)
            return theirs.LocalMask(shape, (before, after), offset=offset)
    size = int(spans.starts[1]) if spans.starts.size > 1 else 0
    if offset == 0 and size and _says(spans, Causal() & Chunks(size)):
        return theirs.ChunkedCausalMask(shape, size)
    return _lazy_class()(spans)


def _says(spans: Spans, mask: Mask) -> bool:
    return bind(mask, spans.q_len, spans.k_len, spans.q_start) == spans


@cache
def _lazy_class() -> type:
    """Return the class of masks that ask Spans; it exists only where JAX does."""

    class SpansMask(library(MODULE, "jax").Mask):
        """A splash mask that answers for a tile from Spans: O(spans in it + its cells)."""

        def __init__(self, spans: Spans):
            self.spans = spans

        @property
        def shape(self) -> tuple[int, int]:
            return self.spans.shape

        def __getitem__(self, at: tuple[slice, slice]) -> np.ndarray:
            (q0, q1, _), (k0, k1, _) = (x.indices(n) for x, n in zip(at, self.shape, strict=True))
            rows = self.spans.rows(self.spans.q_start + q0, self.spans.q_start + q1)
            return rows.compact([(k0, k1)] if k1 > k0 else []).dense()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, SpansMask) and self.spans == other.spans

        def __hash__(self) -> int:
            return hash(self.spans)

    return SpansMask
