"""ONNX: the `Attention` operator of opsets 23, 24 and 25 (onnx 1.23.2).

    True means          attend (bool `attn_mask`)
    windows             from opset 25: a query at p sees `p - left .. p + right`, both included, so
                        left keeps left + 1 keys; -1 is no limit
    causal when q != k  row i is position `offset + i`, where offset is the number of keys in
                        `past_key`; or `nonpad_kv_seqlen - queries` (opset 24, no past); or 0
    nonpad_kv_seqlen    int64 (batch,): keys from there on are hidden
    empty row           zeros, says the standard since onnx 1.23 and does onnxruntime 1.32 (CPU);
                        earlier ones NaN or a mean (https://github.com/onnx/onnx/issues/8054)

onnxruntime refuses an `attn_mask` with fewer rows or keys than there are (the standard broadcasts
it) below opset 25, so masks here always have every row and every key.

Source: https://onnx.ai/onnx/operators/onnx__Attention.html, alignment settled in
https://github.com/onnx/onnx/pull/8068
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.arrays import dense, four_axes
from hitherto.lowering.grid import Grid
from hitherto.lowering.library import library
from hitherto.lowering.onnx_model import export_attention
from hitherto.lowering.outer import band_of, outer, positions_before, row_bounds
from hitherto.mask import Band, Everything, Keys, Mask

__all__ = ["OnnxAttention", "export_attention", "onnx"]

OPSETS = (23, 24, 25)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxAttention:
    """What an `Attention` node needs to say a mask, besides its queries, keys and values."""

    opset: int
    """The operator set it is for."""

    past_len: int
    """Keys that come in `past_key`; the others come in `K`."""

    attributes: dict[str, int] = field(default_factory=dict)
    """`is_causal`, `left_window_size`, `right_window_size`: those that are not the default."""

    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    """`attn_mask`, bools (batch or 1, heads or 1, queries, all keys); `nonpad_kv_seqlen`, int64."""

    def node(self, name: str = "", **attributes: Any) -> Any:
        """Return the NodeProto; its inputs and outputs are named as in the standard.

        Args:
            name: of the node.
            attributes: more of the operator's, e.g. `scale`, `softcap`.
        """
        helper = library("onnx.helper", "onnx")
        past = ["past_key", "past_value"] if self.past_len else ["", ""]
        mask, lengths = (x if x in self.inputs else "" for x in ("attn_mask", "nonpad_kv_seqlen"))
        names = ["Q", "K", "V", mask, *past, lengths]
        while not names[-1]:
            names.pop()
        outputs = ["Y"] + ["present_key", "present_value"] * bool(self.past_len)
        return helper.make_node("Attention", names, outputs, name=name, **self.attributes,
                                **attributes)  # fmt: skip


def onnx(
    grid: Grid, *, opset: int = 25, past_len: int = 0, batch: int | None = None
) -> OnnxAttention:
    """Return attributes and inputs of an `Attention` node: the smallest that are exact.

    Args:
        grid: the mask; its keys are those of `past_key` followed by those of `K`.
        opset: 23, 24 or 25.
        past_len: how many of the keys come in `past_key`.
        batch: rows of the batch, which `nonpad_kv_seqlen` is for; the mask's unless given.
    Raises:
        MaskError: a past longer than the keys.
    Cost: O(runs), or O(queries * keys) where a tensor is needed.
    """
    if opset not in OPSETS:
        raise ValueError(explain("opset", "must be 23, 24 or 25", opset, "Attention begins at 23"))
    if not 0 <= past_len <= grid.k_len:
        raise MaskError(
            explain("past_len", f"must be from 0 to k_len = {grid.k_len}", past_len,
                    "count the keys that the cache holds")
        )  # fmt: skip
    for said, lengths, meaning in _sayable(grid, opset, past_len):
        if grid.first_difference(meaning) is None:
            attributes, inputs = said, {}
            if lengths is not None:
                rows = max(batch or 1, grid.batch)
                inputs["nonpad_kv_seqlen"] = np.broadcast_to(lengths, rows).astype(np.int64)
            break
    else:
        attributes, inputs = {}, {"attn_mask": four_axes(dense(grid))}
    return OnnxAttention(opset=opset, past_len=past_len, attributes=attributes, inputs=inputs)


Said = tuple[dict[str, int], np.ndarray | None, Mask]
"""Attributes, `nonpad_kv_seqlen`, and what they mean."""


def _sayable(grid: Grid, opset: int, past_len: int) -> Iterator[Said]:
    """List what the operator can say of masks near this one without a tensor, simplest first."""
    filled = [outer(spans) for spans in grid.bound.spans]
    band = np.max([b for x in filled if (b := band_of(x)) is not None] or [(0, 0)], axis=0)
    for attributes, meaning in _bands(grid.q_start - past_len, band, opset):
        yield attributes, None, meaning
    if opset == 23 or past_len or grid.heads > 1:
        return
    ends = [int(row_bounds(spans)[1].max(initial=0)) for spans in filled]
    lengths = np.array(ends)[grid.bound.index[:, 0]]
    yield {}, lengths, Keys(positions_before(lengths, grid.k_len))
    # Where a causal row or a window is, too, the lengths say where the last query stands.
    stop = grid.q_start + grid.q_len
    if stop <= grid.k_len:
        for attributes, meaning in _bands(0, band, opset):
            yield attributes, np.array([stop]), meaning & Keys([range(stop)])


def _bands(delta: int, band: np.ndarray, opset: int) -> Iterator[tuple[dict[str, int], Mask]]:
    """List causal and windows; a row that the operator puts at p stands at `p + delta`."""
    yield {}, Everything()
    yield {"is_causal": 1}, Band(None, -delta)
    before, after = band.tolist()
    left, right = before - delta, after + delta
    if opset < 25:
        return
    if right >= 0:
        yield {"right_window_size": right}, Band(None, after)
    if left >= 0:
        yield {"left_window_size": left}, Band(before, None)
    if left >= 0 and right >= 0 and before + after >= 0:
        yield {"left_window_size": left, "right_window_size": right}, Band(before, after)
