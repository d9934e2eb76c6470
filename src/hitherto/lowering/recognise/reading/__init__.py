"""Any library's mask, read into Spans: one file for each family of forms."""

from typing import Any

from hitherto.errors import MaskError, explain
from hitherto.lowering.call import Call
from hitherto.lowering.flashmask import FlashMask
from hitherto.lowering.magi import MagiSlices
from hitherto.lowering.onnx import OnnxAttention
from hitherto.lowering.recognise.forms import Bits, CuSeqlens, Padding, PositionIds
from hitherto.lowering.recognise.reading.arguments import arguments, onnx
from hitherto.lowering.recognise.reading.dense import Polarity, dense
from hitherto.lowering.recognise.reading.flex import block_mask
from hitherto.lowering.recognise.reading.lengths import padding, position_ids
from hitherto.lowering.recognise.reading.packed import bias, causal_bias, cu_seqlens
from hitherto.lowering.recognise.reading.ranges import flash_mask, magi_slices
from hitherto.lowering.recognise.reading.sparse import bits, coo, csr
from hitherto.lowering.sparse import Coo, Csr
from hitherto.mask import Batch


def read(
    x: Any, *, true: Polarity, q_len: int | None, k_len: int | None, q_start: int | None
) -> Batch:
    """Read a mask in any form that `recognise` takes.

    Raises:
        MaskError: x is in none of them.
    """
    match x:
        case Bits():
            return bits(x, q_start)
        case Csr():
            return csr(x, q_start)
        case Coo():
            return coo(x, q_start)
        case CuSeqlens():
            return cu_seqlens(x, q_len, q_start)
        case Padding():
            return padding(x, q_len, q_start)
        case PositionIds():
            return position_ids(x, q_len, q_start)
        case FlashMask():
            return flash_mask(x, q_len, k_len, q_start)
        case MagiSlices():
            return magi_slices(x, q_len, k_len, q_start)
        case OnnxAttention():
            return onnx(x, (q_len, k_len, q_start))
        case Call() | dict():
            return arguments(x, (q_len, k_len, q_start))
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(x).__mro__}
    if "torch.nn.attention.flex_attention.BlockMask" in names:
        return block_mask(x, q_start)
    if "torch.nn.attention.bias.CausalBias" in names:
        return causal_bias(x, q_start)
    if any(name.startswith("xformers.") for name in names):
        return bias(x, q_len, k_len, q_start)
    if any(name.endswith("splash_attention_mask.Mask") for name in names):
        return dense(x[:, :] if len(x.shape) == 2 else x[:, :, :][None], true, q_start)
    if hasattr(x, "shape") or isinstance(x, (list, tuple)):
        return dense(x, true, q_start)
    raise MaskError(
        explain("x", "must be an array, a BlockMask, an xFormers bias or a form of its own",
                type(x).__name__, "see hitherto.lowering.recognise.forms")
    )  # fmt: skip
