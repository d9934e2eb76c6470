"""What a model hands its attention as a mask, read as a mask and what is added to the scores."""

import torch
from torch import Tensor

from hitherto.errors import Unsupported, explain
from hitherto.integrations.carried import Carried, Sight
from hitherto.mask import Everything, Table

Shape = tuple[int, int, int, int]
"""(batch, heads, queries, keys)."""


def read(mask: Tensor, shape: Shape) -> tuple[Sight, Tensor | None]:
    """Return a mask and a bias that together do what a model's mask does.

    Args:
        mask: a `Carried` mask; or a 4-D tensor that broadcasts to `shape`: bool, True = may attend,
            or added to the scores, where -inf and the smallest float hide.
        shape: of the scores.
    Raises:
        Unsupported: another kind of mask, or one that does not fit.
    """
    _require(mask, shape)
    if isinstance(mask, Carried):
        if mask.sight is not None:
            return mask.sight, None
        mask = mask.dense()
    if mask.requires_grad:
        return _split(mask, shape)
    known = getattr(mask, "_read", None)
    if known is None or known[1] != shape or not torch.equal(known[0], mask):
        # A model hands the same tensor to every layer.
        known = mask._read = mask.clone(), shape, _split(mask, shape)
    return known[2]


def _require(mask: Tensor, shape: Shape) -> None:
    fits = isinstance(mask, Tensor) and mask.ndim == 4 and all(
        have in (1, want) for have, want in zip(mask.shape, shape, strict=True)
    )  # fmt: skip
    if not fits or not (mask.dtype == torch.bool or mask.is_floating_point()):
        came = (
            f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        )
        raise Unsupported(
            explain("attention_mask", f"must be a bool or float tensor that fits {shape}", came,
                    "pass a 2-D mask to the model, or a 4-D one of this shape")
        )  # fmt: skip


def _split(mask: Tensor, shape: Shape) -> tuple[Sight, Tensor | None]:
    if mask.dtype == torch.bool:
        return _sight(mask, shape), None
    hidden = mask <= torch.finfo(mask.dtype).min
    bias = mask.masked_fill(hidden, 0.0)
    adds = mask.requires_grad or bool(bias.any())
    return _sight(~hidden, shape), bias if adds else None


def _sight(shown: Tensor, shape: Shape) -> Sight:
    if bool(shown.all()):
        return Sight(mask=Everything())
    once = shown[: 1 if shown.stride(0) == 0 else None, : 1 if shown.stride(1) == 0 else None]
    return Sight(mask=Table(once.expand(-1, -1, *shape[2:]).cpu().numpy()))
