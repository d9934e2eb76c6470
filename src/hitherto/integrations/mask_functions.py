"""transformers' mask functions read back as masks: by what they are, never by trying cells.

`create_causal_mask` and its sisters hand an attention implementation a function of (batch, head,
query, key) that is put together from a few known pieces. Each piece is a closure over its numbers.
A piece that is not the library's own, such as a model's own overlay, has no reading here.

    causal_mask_function                    Causal()
    sliding_window_overlay(w)               Band(w - 1, None): k > q - w
    sliding_window_bidirectional_overlay(w) Band(w, w): |q - k| <= w
    chunked_overlay(c, left)                Chunks(c, start=left), Segments where rows differ
    blockwise_overlay(ids)                  Segments(ids), below 0 belongs to nothing
    packed_sequence_mask_function(ids)      Segments(ids)
    padding_mask_function(shown)            Keys(shown)
    remap_positions_for_packed_sequence(f)  f, inside the documents that its positions count

Source: https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/masking_utils.py
"""

import inspect
from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
from torch import Tensor

from hitherto.mask import And, Band, Causal, Chunks, Everything, Keys, Mask, Or, Segments

HOME = "transformers.masking_utils"
Array = np.ndarray


class Unread(Exception):
    """A piece of a mask function that is not one of the library's own."""


def mask_of(function: Callable[..., Any], stop: int) -> Mask | None:
    """Return the mask over absolute positions that a mask function stands for.

    Args:
        function: what transformers passes to a mask interface as `mask_function`.
        stop: one past the last position that it will be asked about.
    Returns:
        a mask that shows the same cells everywhere below `stop`; None where a part of the function
        is unknown, and only its cells can tell.
    """
    try:
        return _read(function, stop)
    except Unread:
        return None


def _read(function: Callable[..., Any], stop: int, packed: Array | None = None) -> Mask:
    held = inspect.getclosurevars(function).nonlocals if _piece(function) else {}
    match _piece(function):
        case "causal_mask_function":
            return Causal()
        case "bidirectional_mask_function":
            return Everything()
        case "and_masks":
            parts = held["mask_functions"]
            packed = next((ids for part in parts if (ids := _packed(part)) is not None), packed)
            return reduce(and_, (_read(part, stop, packed) for part in parts))
        case "or_masks":
            return reduce(or_, (_read(part, stop, packed) for part in held["mask_functions"]))
        case "sliding_window_overlay":
            return Band(held["sliding_window"] - 1, None)
        case "sliding_window_bidirectional_overlay":
            return Band(held["sliding_window"], held["sliding_window"])
        case "chunked_overlay":
            return _chunks(held["chunk_size"], _array(held["left_padding"]), stop)
        case "blockwise_overlay":
            return Segments(np.maximum(_array(held["block_sequence_ids"]), -1))
        case "packed_sequence_mask_function":
            return Segments(_array(held["packed_sequence_mask"]))
        case "padding_mask_function":
            return Keys(_array(held["padding_mask"]).astype(bool))
        case "remap_positions_for_packed_sequence":
            inner = _read(held["mask_function"], stop)
            return _counted(inner, _array(held["position_ids"]), packed)
    raise Unread


def _piece(function: Callable[..., Any]) -> str | None:
    """Name the library's function that is, or has made, this one."""
    if getattr(function, "__module__", None) != HOME:
        return None
    return function.__qualname__.partition(".")[0]


def _packed(function: Callable[..., Any]) -> Array | None:
    if _piece(function) != "packed_sequence_mask_function":
        return None
    return _array(inspect.getclosurevars(function).nonlocals["packed_sequence_mask"])


def _array(x: Tensor) -> Array:
    return x.detach().cpu().numpy()


def _chunks(size: int, left: Array, stop: int) -> Mask:
    if (left == left[0]).all():
        return Chunks(size, start=int(left[0]))
    return _segments((np.arange(stop) - left[:, None]) // size)


def _segments(ids: Array) -> Segments:
    return Segments(ids - ids.min())


def _counted(mask: Mask, positions: Array, packed: Array | None) -> Mask:
    """Read a mask at positions that begin again in every document, where only one's own is seen.

    Inside a document positions count by one, so that distances are what they were.
    """
    if packed is None or packed.shape != positions.shape:
        raise Unread
    if ((np.diff(positions) != 1) & (np.diff(packed) == 0)).any():
        raise Unread
    match mask:
        case Causal() | Band() | Everything():
            return mask
        case And(left=a, right=b):
            return _counted(a, positions, packed) & _counted(b, positions, packed)
        case Or(left=a, right=b):
            return _counted(a, positions, packed) | _counted(b, positions, packed)
        case Chunks(size=size, start=start):
            return _segments((positions - start) // size)
    raise Unread
