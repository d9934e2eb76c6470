"""Packed sequences under one window: varlen arguments, and xFormers' bias classes."""

from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.packing import Corner, Packing
from hitherto.lowering.recognise.forms import CuSeqlens
from hitherto.lowering.recognise.reading.grid import (
    Array,
    batch_of,
    by_ranges,
    first_query,
    ints,
    needed,
)
from hitherto.mask import Batch, Spans

Sides = tuple[int | None, int | None]
"""Keys seen before the diagonal and after it; None = no limit."""


def cu_seqlens(packed: CuSeqlens, q_len: int | None = None, q_start: int | None = None) -> Batch:
    """Read documents laid end to end, each aligned at its last query and key."""
    sides = window(packed.window, packed.causal)
    return varlen(packed.q, packed.k, sides, "bottom-right", q_len, q_start)


def window(limits: Any, causal: bool = False) -> Sides:
    """Read flash-attn's `window_size`, where -1 is no limit, and `causal`, which is right = 0."""
    left, right = (None if n is None or n < 0 else int(n) for n in limits)
    return left, 0 if causal else right


def varlen(
    q: Any, k: Any, sides: Sides, corner: Corner, q_len: int | None, q_start: int | None
) -> Batch:
    """Read cumulative lengths. With `q_len`, rows of so many packed queries are batch rows."""
    q = _ends("cu_seqlens_q", q)
    k = q if k is None else _ends("cu_seqlens_k", k)
    if q.size != k.size:
        raise MaskError(
            explain("cu_seqlens_k", f"must hold {q.size} ends, as those of queries", k.size,
                    "list every document, those without keys as well")
        )  # fmt: skip
    return unpacked(q[1:], k[:-1], k[1:], int(k[-1]), sides, corner, q_len, q_start)


def unpacked(
    q_stops: Array, k_starts: Array, k_stops: Array, keys: int, sides: Sides, corner: Corner,
    q_len: int | None = None, q_start: int | None = None,
) -> Batch:  # fmt: skip
    """Read pieces along the diagonal, as one grid or as batch rows of `q_len` queries each."""
    found = Packing(q_stops=q_stops, k_starts=k_starts, k_stops=k_stops,
                    left=sides[0], right=sides[1], corner=corner)  # fmt: skip
    lo, hi = found.bounds()
    queries = lo.size if q_len is None else q_len
    batch = lo.size // queries if queries else 1
    if not batch or lo.size % batch or keys % batch:
        raise MaskError(
            explain("q_len", f"must divide the {lo.size} packed queries", q_len,
                    "leave it out to read the packed grid as it is")
        )  # fmt: skip
    k_len = keys // batch
    grid = first_query(queries, k_len, q_start), queries, k_len

    def row(b: int, _: int) -> Spans:
        mine = slice(b * queries, (b + 1) * queries)
        return by_ranges(np.arange(queries), lo[mine] - b * k_len, hi[mine] - b * k_len, grid)

    return batch_of((batch, 1), row)


def bias(found: Any, q_len: int | None, k_len: int | None, q_start: int | None) -> Batch:
    """Read an xFormers bias by the name of its class and its attributes.

    A window is `_window_size` (so many keys, the query's own included) or `window_left` and
    `window_right`; the corner is in the name, and bottom-right wherever keys are padded or gappy.
    Source: xformers/ops/fmha/attn_bias.py of 0.0.35.
    """
    name = type(found).__name__
    if "Paged" in name or hasattr(found, "_bias"):
        raise MaskError(
            explain("x", "must be an xFormers mask of its own, without pages or a tensor", name,
                    "recognise the mask without the bias or before its keys are paged")
        )  # fmt: skip
    sides = _sides(found, name)
    bottom = any(word in name for word in ("BottomRight", "WithOffset", "PaddedKeys"))
    corner: Corner = "bottom-right" if bottom else "top-left"
    if not hasattr(found, "q_seqinfo"):
        q, k = needed("q_len", q_len), needed("k_len", k_len)
        return unpacked(np.array([q]), np.array([0]), np.array([k]), k, sides, corner, q, q_start)
    starts = np.array(found.k_seqinfo.seqstart_py)
    lengths = getattr(found.k_seqinfo, "seqlen_py", None)
    stops = starts[1:] if lengths is None else starts[:-1] + np.array(lengths)
    return unpacked(
        np.array(found.q_seqinfo.seqstart_py[1:]), starts[:-1], stops, int(starts[-1]), sides,
        corner, q_len, q_start,
    )  # fmt: skip


def causal_bias(found: Any, q_start: int | None) -> Batch:
    """Read torch's `CausalBias`: its tensor holds nothing, its variant says the corner."""
    q, k = int(found.seq_len_q), int(found.seq_len_kv)
    corner: Corner = "top-left" if found.variant.name == "UPPER_LEFT" else "bottom-right"
    ends = np.array([q]), np.array([0]), np.array([k])
    return unpacked(*ends, k, (None, 0), corner, q, q_start)


def _sides(found: Any, name: str) -> Sides:
    if hasattr(found, "window_left"):
        return found.window_left, found.window_right
    width = getattr(found, "_window_size", None)
    causal = "Causal" in name or name.startswith("LowerTriangular")
    return None if width is None else width - 1, 0 if causal else None


def _ends(argument: str, value: object) -> Array:
    ends = ints(argument, value, 1)
    if not ends.size or ends[0] or (np.diff(ends) < 0).any():
        raise MaskError(
            explain(argument, "must begin with 0 and never fall", ends.tolist()[:8],
                    "pass cumulative lengths, e.g. [0, 5, 12] for documents of 5 and 7")
        )  # fmt: skip
    return ends
