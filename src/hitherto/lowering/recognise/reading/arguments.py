"""Arguments of other libraries' attention, as `lower` returns them and as their callers write them.

Rows of their grids are numbered from 0; here row i is position `q_start + i`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.lowering.call import Call
from hitherto.lowering.recognise.forms import Padding, PositionIds
from hitherto.lowering.recognise.reading import flashinfer
from hitherto.lowering.recognise.reading.dense import dense
from hitherto.lowering.recognise.reading.grid import (
    common,
    first_query,
    ints,
    needed,
    plain,
)
from hitherto.lowering.recognise.reading.lengths import padding, position_ids
from hitherto.lowering.recognise.reading.packed import Sides, bias, varlen, window
from hitherto.lowering.recognise.reading.ranges import key_bounds
from hitherto.mask import Band, Batch, Everything, Keys, Mask, Queries, bind_batch
from hitherto.mask.expression import FARTHEST

Said = dict[str, Any]
Lengths = tuple[int | None, int | None, int | None]
"""q_len, k_len, q_start: those that the caller gave."""


def arguments(x: Call | Said, lengths: Lengths) -> Batch:
    """Read keyword arguments by their names.

    Raises:
        MaskError: names that belong to no library known here; lengths that nothing says.
    """
    if isinstance(x, Call) and x.name.startswith("xformers."):
        return bias(x(), *lengths)
    said = x.arguments if isinstance(x, Call) else x
    names = set(said)
    for known, read in _READERS:
        if names & known:
            return read(said, lengths)
    raise MaskError(
        explain("x", "must hold arguments that say a mask", f"a dict of {sorted(names)}",
                "pass the mask tensor, or a form of hitherto.lowering.recognise")
    )  # fmt: skip


def _both(lengths: Lengths) -> tuple[int, int, int]:
    """Return q_len, k_len and q_start, all of them known."""
    q_len, k_len = needed("q_len", lengths[0]), needed("k_len", lengths[1])
    return q_len, k_len, first_query(q_len, k_len, lengths[2])


def _bound(mask: Mask, lengths: Lengths) -> Batch:
    return bind_batch(mask, *_both(lengths))


def banded(sides: Sides, shift: int, lengths: Lengths) -> Mask:
    """Return the band of a window that row i counts from key `i + shift`."""
    left, right = sides
    off = shift - _both(lengths)[2]
    if left is None and right is None:
        return Everything()
    return Band(None if left is None else left - off, None if right is None else right + off)


def _sdpa(said: Said, lengths: Lengths) -> Batch:
    if said.get("attn_mask") is not None:
        return dense(_rows(said["attn_mask"], lengths), "attends", lengths[2])
    return _bound(banded((None, 0 if said["is_causal"] else None), 0, lengths), lengths)


def _rows(mask: Any, lengths: Lengths) -> Any:
    """Broadcast the query axis of a mask of one row."""
    mask = plain(mask)
    if lengths[0] is None or mask.shape[-2] != 1:
        return mask
    shape = (*mask.shape[:-2], lengths[0], mask.shape[-1])
    return mask.expand(shape) if hasattr(mask, "expand") else np.broadcast_to(mask, shape)


def _mha(said: Said, lengths: Lengths) -> Batch:
    """True hides, in both tensors."""
    mask, pads = said.get("attn_mask"), said.get("key_padding_mask")
    if pads is not None:
        pads = np.asarray(plain(pads))
    if mask is None:
        keys = lengths[1] if pads is None else pads.shape[-1]
        q_len, k_len, start = _both((lengths[0], keys, lengths[2]))
        seen = bind_batch(Everything(), q_len, k_len, start)
    else:
        seen = dense(mask, "hides", lengths[2])
    if pads is None:
        return seen
    q_start, q_len, k_len = seen.spans[0].grid
    real = bind_batch(Keys(~pads.astype(bool)), q_len, k_len, q_start)
    return common(seen, real)


def _transformers(said: Said, lengths: Lengths) -> Batch:
    """A decoder's: 2-D masks and position ids are on top of causal."""
    if "position_ids" in said:
        return position_ids(PositionIds(said["position_ids"]), *lengths[::2])
    mask = plain(said["attention_mask"])
    if mask.ndim == 2:
        return padding(Padding(mask), *lengths[::2])
    return dense(_rows(mask, lengths), "attends", lengths[2])


def _keras(said: Said, lengths: Lengths) -> Batch:
    if said["use_causal_mask"]:
        raise MaskError(
            explain("use_causal_mask", "must be False: where it is True the mask is their product",
                    True, "recognise the two of them one by one")
        )  # fmt: skip
    return dense(_rows(said["attention_mask"], lengths), "attends", lengths[2])


def _jax(said: Said, lengths: Lengths) -> Batch:
    """Row i is position i; lengths hide what comes after."""
    if "mask" in said:
        mask = said["mask"]
        lengths = mask.shape[-2], mask.shape[-1], lengths[2]
    q_len, k_len, start = _both(lengths)
    seen: Mask = Everything()
    if said.get("is_causal"):
        seen &= banded((None, 0), 0, lengths)
    if said.get("local_window_size") is not None:
        sides = said["local_window_size"]
        seen &= banded((sides, sides) if isinstance(sides, int) else tuple(sides), 0, lengths)
    if said.get("key_value_seq_lengths") is not None:
        seen &= Keys(_before(said["key_value_seq_lengths"], k_len, 0))
    if said.get("query_seq_lengths") is not None:
        seen &= Queries(_before(said["query_seq_lengths"], q_len, start))
    found = bind_batch(seen, q_len, k_len, start)
    return dense(said["mask"], "attends", start) if "mask" in said else found


def _before(ends: Any, count: int, start: int) -> np.ndarray:
    """Return bools (batch, positions): which come before each end, counted from `start`."""
    return np.arange(start + count) < ints("seq_lengths", ends, 1)[:, None] + start


def _tokamax(said: Said, lengths: Lengths) -> Batch:
    q_len, k_len, start = _both(lengths)
    lo = ints("k_start", said.get("k_start", 0))
    hi = ints("k_end", said.get("k_end", k_len))
    if said.get("is_causal"):
        hi = np.minimum(hi, np.arange(1, q_len + 1))
    return key_bounds(lo, hi, q_len, k_len, start)


def _flash(said: Said, lengths: Lengths) -> Batch:
    """flash-attn and torch's varlen_attn: bottom-right corners."""
    sides = window(said.get("window_size", (-1, -1)), said.get("causal", False))
    for q, k in (("cu_seqlens_q", "cu_seqlens_k"), ("cu_seq_q", "cu_seq_k")):
        if q in said:
            return varlen(said[q], said.get(k), sides, "bottom-right", *lengths[::2])
    q_len, k_len, start = _both(lengths)
    if "cache_seqlens" not in said:
        return _bound(banded(sides, k_len - q_len, lengths), lengths)
    stop = ints("cache_seqlens", said["cache_seqlens"], 1)[:, None]
    first = ints("cache_leftpad", said.get("cache_leftpad", np.zeros(len(stop), int)), 1)[:, None]
    lo, hi = _around(np.arange(q_len) + stop - q_len, sides)
    lo, hi = np.maximum(lo, first), np.minimum(hi, stop)
    return key_bounds(lo[:, None], hi[:, None], q_len, k_len, start)


def _around(at: np.ndarray, sides: Sides) -> tuple[np.ndarray, np.ndarray]:
    """Return the first key of a window and one past its last."""
    left, right = sides
    far = np.full_like(at, FARTHEST)
    return -far if left is None else at - left, far if right is None else at + right + 1


def onnx(found: Any, lengths: Lengths) -> Batch:
    """Read an `Attention` node: rows follow the past, or end at `nonpad_kv_seqlen`."""
    if "attn_mask" in found.inputs:
        return dense(found.inputs["attn_mask"], "attends", lengths[2])
    q_len, k_len, start = _both(lengths)
    stop = found.inputs.get("nonpad_kv_seqlen")
    offset = np.array([[found.past_len]]) if stop is None else stop[:, None] - q_len
    said = found.attributes
    limits = (said.get(f"{side}_window_size", -1) for side in ("left", "right"))
    sides = window(limits, bool(said.get("is_causal")))
    lo, hi = _around(np.arange(q_len) + offset, sides)
    hi = hi if stop is None else np.minimum(hi, stop[:, None])
    return key_bounds(lo[:, None], hi[:, None], q_len, k_len, start)


def _transformer_engine(said: Said, lengths: Lengths) -> Batch:
    """True hides; a type names the corner."""
    kind = said["attn_mask_type"]
    if kind == "arbitrary":
        return dense(_rows(said["attention_mask"], lengths), "hides", lengths[2])
    sides = window(said.get("window_size", (-1, -1)), "causal" in kind)
    corner = "top-left" if kind.endswith("causal") else "bottom-right"
    if "cu_seqlens_q" in said:
        return varlen(said["cu_seqlens_q"], said["cu_seqlens_kv"], sides, corner, *lengths[::2])
    q_len, k_len, _ = _both(lengths)
    return _bound(banded(sides, 0 if corner == "top-left" else k_len - q_len, lengths), lengths)


def _flashinfer(said: Said, lengths: Lengths) -> Batch:
    if "window_left" in said:
        q_len, k_len, _ = _both(lengths)
        sides = window((said["window_left"], -1), said["causal"])
        return _bound(banded(sides, k_len - q_len, lengths), lengths)
    if "indptr" in said:
        return flashinfer.blocks(said, lengths[2])
    return flashinfer.bits(said, lengths)


_READERS: tuple[tuple[set[str], Callable[[Said, Lengths], Batch]], ...] = (
    ({"attn_mask_type"}, _transformer_engine),
    ({"key_padding_mask", "need_weights"}, _mha),
    ({"packed_custom_mask", "window_left", "indptr"}, _flashinfer),
    ({"window_size", "cu_seqlens_q", "cu_seq_q", "cache_seqlens"}, _flash),
    ({"use_causal_mask"}, _keras),
    ({"attention_mask", "position_ids"}, _transformers),
    ({"k_start", "k_end"}, _tokamax),
    ({"attn_mask"}, _sdpa),
    ({"mask", "local_window_size", "key_value_seq_lengths", "query_seq_lengths"}, _jax),
    ({"is_causal"}, _sdpa),
)
"""Names that only one library has, and who reads its arguments."""
