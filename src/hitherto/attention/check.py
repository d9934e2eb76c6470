"""The checks at the public door: each raises in four parts, before anything runs."""

import math

import numpy as np
import torch
from torch import Tensor

from hitherto.attention.bias import Alibi, Bias, Relative
from hitherto.errors import MaskError, explain
from hitherto.mask import Mask, axes

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def require_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless q, k and v fit together."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.ndim != 4:
            came = str(tuple(x.shape)) if isinstance(x, Tensor) else type(x).__name__
            _fail(name, "must be a tensor (batch, heads, positions, width)", came,
                  "add the missing axes, e.g. x[None]")  # fmt: skip
        if x.dtype not in DTYPES:
            _fail(name, "must be float32, bfloat16, float16 or float64", str(x.dtype),
                  "convert it with .to(torch.float32)")  # fmt: skip
    if not q.dtype == k.dtype == v.dtype or not q.device == k.device == v.device:
        _fail("q, k, v", "must share one dtype and one device",
              ", ".join(f"{x.dtype} on {x.device}" for x in (q, k, v)),
              "convert them with .to(q)")  # fmt: skip
    shapes = q.shape, k.shape, v.shape
    if (misfit := _misfit(*shapes)) is not None:
        name, rule, fix = misfit
        q_shape, k_shape, v_shape = map(tuple, shapes)
        _fail(name, rule, f"q {q_shape}, k {k_shape}, v {v_shape}", fix)


def _misfit(q: torch.Size, k: torch.Size, v: torch.Size) -> tuple[str, str, str] | None:
    """Return the argument, the rule it breaks and the fix; None where the shapes fit."""
    if k[:3] != v[:3]:
        return "v", "must have the batch, kv_heads and keys of k", "pass a value for each key"
    if q[0] != k[0]:
        return "k", "must have the batch of q", "expand the keys to q's batch"
    if q[3] != k[3] or q[3] == 0 or v[3] == 0:
        rule = "must have the head_dim of q, and no width may be 0"
        return "k", rule, "project both to one head_dim"
    if q[1] == 0 or k[1] == 0 or q[1] % k[1]:
        rule = "must have a multiple of k's kv_heads as heads"
        return "q", rule, "each kv head serves heads / kv_heads query heads"
    return None


def require_numbers(scale: float | None, softcap: float | None) -> None:
    """Raise unless scale and softcap are numbers with a meaning."""
    if scale is not None and not (_is_number(scale) and math.isfinite(scale)):
        _fail("scale", "must be a finite number", scale, "leave it out for 1 / sqrt(head_dim)")
    if softcap is not None and not (_is_number(softcap) and 0 < softcap < math.inf):
        _fail("softcap", "must be a finite number > 0", softcap, "pass None for no cap")


def require_mask(mask: Mask, batch: int, heads: int) -> None:
    """Raise unless the mask's batch and head axes broadcast to those of q."""
    if not isinstance(mask, Mask):
        raise MaskError(
            explain("mask", "must be a mask", "None" if mask is None else type(mask).__name__,
                    "write Causal() or Everything(), or wrap a bool array in Table(array)")
        )  # fmt: skip
    for name, have, want in zip(("batch", "heads"), axes(mask), (batch, heads), strict=True):
        if have not in (None, 1, want):
            raise MaskError(
                explain("mask", f"must have q's {name} ({want}) or 1", f"{have} in {mask}",
                        f"give one mask a {name.removesuffix('s')}, or one for all")
            )  # fmt: skip


def require_bias(bias: Bias | None, shape: tuple[int, int, int, int]) -> None:
    """Raise unless the bias covers `shape`: (batch, heads, queries, keys)."""
    match bias:
        case None:
            return
        case Alibi(slopes=leaf):
            name, fits = "bias (Alibi.slopes)", leaf.shape[0] == shape[1]
        case Relative(table=leaf):
            name, fits = "bias (Relative.table)", leaf.shape[0] in (1, shape[1])
        case Tensor():
            name, leaf = "bias", bias
            fits = bias.ndim <= 4 and all(
                have in (1, want)
                for have, want in zip(reversed(bias.shape), reversed(shape), strict=False)
            )
        case _:
            _fail("bias", "must be Alibi, Relative or a tensor", type(bias).__name__,
                  "wrap the numbers in torch.tensor")  # fmt: skip
    if not leaf.is_floating_point():
        _fail(name, "must be floating point; a mask is no bias", str(leaf.dtype),
              "put bools into the mask as Table(array)")  # fmt: skip
    if not fits:
        _fail(name, f"must fit (batch, heads, queries, keys) = {shape}", str(tuple(leaf.shape)),
              "give a row a head, or axes of size 1")  # fmt: skip


def require_sinks(sinks: Tensor | None, heads: int) -> None:
    """Raise unless there is one sink a head."""
    if sinks is None:
        return
    if not isinstance(sinks, Tensor) or not sinks.is_floating_point() or sinks.shape != (heads,):
        came = f"{sinks.dtype} {tuple(sinks.shape)}" if isinstance(sinks, Tensor) else repr(sinks)
        _fail("sinks", f"must be a floating point tensor of shape ({heads},)", came,
              "pass one logit a head")  # fmt: skip


def positions_of(k_pos: Tensor | np.ndarray, keys: int) -> np.ndarray:
    """Return `k_pos` as int64 numpy, or raise unless it gives every key a later position."""
    array = k_pos.detach().cpu().numpy() if isinstance(k_pos, Tensor) else np.asarray(k_pos)
    whole = array.ndim == 1 and array.size == keys and (array.size == 0 or array.dtype.kind in "iu")
    if not whole or (array.size and array[0] < 0) or (np.diff(array.astype(np.int64)) < 1).any():
        _fail("k_pos", f"must hold {keys} increasing ints >= 0, one a key",
              f"{array.dtype} of shape {array.shape}: {array}",
              "pass what the cache's view() returns")  # fmt: skip
    return array.astype(np.int64)


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _fail(argument: str, rule: str, came: object, fix: str) -> None:
    raise ValueError(explain(argument, rule, came, fix))
