"""The native kernels' Python door: checks done, tensors become addresses, strides and Spans.

The kernels are optional. They must be loaded after torch, whose OpenMP threads they share.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from hitherto.attention.grid import Grid, layout
from hitherto.attention.sinks import sink_gradient
from hitherto.attention.spoil import shielded
from hitherto.attention.terms import Inputs, Terms
from hitherto.errors import Unsupported, explain
from hitherto.mask import Mask


def _load() -> Any:
    try:
        return import_module("hitherto._native")
    except ImportError:
        return None


_native = _load()

Grads = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]
Pieces = Sequence[tuple[Tensor, Tensor]]

SETS: tuple[str, ...] = tuple(_native.supported()) if _native else ()
"""Instruction sets that were built and that this processor runs, the best first."""

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Number formats of the kernels, as they count them."""

ABSENT = (
    "the native kernels are not part of this installation: install a C++20 compiler with OpenMP, "
    "then install hitherto from its source again"
)

_NO_BIAS = (0,) * 8
_KINDS = {"alibi": 1, "relative": 2, "given": 3}
INF = float("inf")


def lacks(inputs: Inputs) -> str | None:
    """Say what of a call the kernels cannot do; None if they can do it all."""
    if not SETS:
        return ABSENT
    if inputs.q.device.type != "cpu":
        return "the native kernels run on the CPU only"
    if inputs.q.dtype not in DTYPES:
        return f"the native kernels have no {inputs.q.dtype}"
    bias = inputs.bias
    if bias is not None and bias.ndim == 4 and bias.requires_grad:
        return "the native kernels have no gradient of a bias given as a tensor"
    return None


def run(
    inputs: Inputs, terms: Terms, kernels: str | None = None
) -> tuple[Float[Tensor, "batch heads queries v_dim"], Float[Tensor, "batch heads queries"]]:
    """Attend, visiting only what the mask touches.

    Args:
        inputs: the tensors of the call.
        terms: all the rest.
        kernels: one of SETS; the first if None.
    Raises:
        Unsupported: a call that the kernels cannot do exactly.
    Cost: time O(heads * visible cells), memory linear in queries and keys.
    """
    if (missing := lacks(inputs)) is not None:
        raise Unsupported(
            explain("backend", "must do exactly what the call asks", f'"native", but {missing}',
                    'use "auto"')
        )  # fmt: skip
    out, lse, finite = _apply(inputs, terms, kernels)
    if not finite:
        again = lambda i, t: _apply(i, t, kernels)[:2]  # noqa: E731
        return shielded(again, inputs, terms)  # type: ignore[return-value]
    return out, lse


def _apply(inputs: Inputs, terms: Terms, kernels: str | None) -> tuple[Tensor, Tensor, bool]:
    if torch.is_grad_enabled() and any([x is not None and x.requires_grad for x in inputs]):
        return Native.apply(*inputs, terms, kernels)  # type: ignore[return-value]
    return forward(inputs, terms, kernels)


class Native(torch.autograd.Function):
    """`forward` and `backward` below, as one differentiable step."""

    @staticmethod
    def forward(q, k, v, bias, sinks, terms, kernels):  # noqa: D102
        return forward(Inputs(q, k, v, bias, sinks), terms, kernels)

    @staticmethod
    def setup_context(ctx, inputs, output):  # noqa: D102
        ctx.terms, ctx.kernels = inputs[-2:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:-2], *output[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, grad_lse, _):  # noqa: D102
        *tensors, out, lse = ctx.saved_tensors
        grad = torch.zeros_like(out) if grad is None else grad
        wants_bias = ctx.needs_input_grad[3]
        grads = backward(
            Inputs(*tensors), ctx.terms, (out, lse), (grad, grad_lse), wants_bias, ctx.kernels
        )
        return *grads, None, None


def forward(
    inputs: Inputs, terms: Terms, kernels: str | None = None, pieces: Pieces | None = None
) -> tuple[Tensor, Tensor, bool]:
    """Return out, lse and whether every number read was finite, without autograd.

    Where it was not, rows that do not see such a number may be spoilt too. With `pieces`, keys and
    values lie in these pairs, one after another along the keys, and `inputs.k`, `inputs.v` only
    tell their shapes and dtype.
    """
    q, k, v = inputs[:3]
    batch, heads, queries, _ = q.shape
    v_dim = v.shape[3]
    # Heads lie side by side, as the layer that follows reads them.
    strides = (queries * heads * v_dim, v_dim, heads * v_dim, 1)
    out = torch.empty_strided((batch, heads, queries, v_dim), strides, dtype=q.dtype, device="cpu")
    lse = torch.empty((batch, heads, queries), dtype=torch.float32, device="cpu")
    if q.numel() == 0 or terms.grid.k_len == 0:
        return out.zero_(), lse.fill_(-INF), True
    call, _held = _call(inputs, terms, ((k, v),) if pieces is None else pieces)
    finite = _native.forward(kernels or SETS[0], call, _view(out), lse.data_ptr())
    return out, lse, finite


def backward(
    inputs: Inputs,
    terms: Terms,
    results: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor | None],
    wants_bias: bool,
    kernels: str | None = None,
) -> Grads:
    """Return the gradients of the inputs, given what `forward` returned and its gradients."""
    (out, lse), (grad, grad_lse) = results, grads
    lse, grad = lse.contiguous(), _rowwise(grad)
    grad_lse = None if grad_lse is None else grad_lse.to(torch.float32).contiguous()
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype) for x in inputs[:3])
    leaf = inputs.bias if wants_bias else None
    dbias = None if leaf is None else torch.zeros(leaf.shape, dtype=torch.float64)
    if 0 in inputs.q.shape or terms.grid.k_len == 0:
        dq, dk, dv = dq.zero_(), dk.zero_(), dv.zero_()
    else:
        call, _held = _call(inputs, terms, [inputs[1:3]])
        _native.backward(
            kernels or SETS[0], call, _view(out), _view(grad), lse.data_ptr(), _address(grad_lse),
            _view(dq), _view(dk), _view(dv), _address(dbias),
        )  # fmt: skip
    dbias = None if leaf is None or dbias is None else dbias.to(leaf.dtype)
    return dq, dk, dv, dbias, sink_gradient(inputs, lse, out, grad, grad_lse)


def linear(
    x: Float[Tensor, "rows width"],
    weight: Float[Tensor, "outputs width"],
    bias: Float[Tensor, " outputs"] | None = None,
    kernels: str | None = None,
) -> Float[Tensor, "rows outputs"]:
    """Return `x @ weight.T + bias` for 1 to 8 rows, each weight read once.

    Raises:
        ValueError: tensors that do not fit, or no kernels. Fix: torch.nn.functional.linear.
    """
    if not SETS:
        raise Unsupported(explain("kernels", "must be built", ABSENT, "use torch's own linear"))
    fits = (
        x.ndim == weight.ndim == 2
        and 1 <= x.shape[0] <= 8
        and x.shape[1] == weight.shape[1]
        and x.dtype == weight.dtype in DTYPES
        and x.dtype != torch.float16
        and x.device.type == weight.device.type == "cpu"
        and (bias is None or bias.shape == weight.shape[:1])
    )
    if not fits:
        raise ValueError(
            explain("x, weight", "must be 1 to 8 rows and a matrix, float32 or bfloat16",
                    f"{tuple(x.shape)} {x.dtype}, {tuple(weight.shape)} {weight.dtype}",
                    "use torch.nn.functional.linear")
        )  # fmt: skip
    x, weight = _rowwise(x), _rowwise(weight)
    bias = None if bias is None else bias.to(torch.float32).contiguous()
    out = x.new_empty((x.shape[0], weight.shape[0]))
    _native.linear(
        kernels or SETS[0], (*x.shape, weight.shape[0]), (x.data_ptr(), x.stride(0)),
        (weight.data_ptr(), weight.stride(0)), _address(bias), out.data_ptr(), DTYPES[x.dtype],
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def _call(inputs: Inputs, terms: Terms, pieces: Pieces) -> tuple[object, list]:
    """Return the call for the kernels, and the tensors that must outlive it."""
    q = _rowwise(inputs.q)
    held, keys, start = [q], [], 0
    for k, v in pieces:
        k, v = _rowwise(k), _rowwise(v)
        held += k, v
        keys.append((_view(k), _view(v), start))
        start += k.shape[2]
    bias, leaf = _bias(inputs, terms)
    sinks = None if inputs.sinks is None else inputs.sinks.detach().to(torch.float32).contiguous()
    k_pos = _positions(terms.grid) if terms.form is not None else None
    batch, heads, _, head_dim = q.shape
    call = _native.Call(
        _layout(terms.mask, terms.grid, batch, heads),
        (inputs.k.shape[1], head_dim, inputs.v.shape[3]), (terms.scale, terms.softcap or 0.0),
        _view(q), keys, 0 if k_pos is None else k_pos.ctypes.data, bias, _address(sinks),
        torch.get_num_threads(),
    )  # fmt: skip
    return call, [*held, leaf, sinks, k_pos]


@lru_cache(maxsize=64)
def _layout(mask: Mask, grid: Grid, batch: int, heads: int) -> Any:
    bound = layout(mask, grid)
    index = np.broadcast_to(bound.index, (batch, heads)).ravel()
    tables = [
        _native.span_table(
            spans.q_start, spans.q_len, spans.k_len, spans.starts, spans.offsets, spans.a, spans.s,
            spans.b, spans.t, spans.bits.view(np.uint8),
        )
        for spans in bound.spans
    ]  # fmt: skip
    return _native.Layout(tables, np.ascontiguousarray(index), batch, heads)


@lru_cache(maxsize=8)
def _positions(grid: Grid) -> np.ndarray | None:
    return None if grid.kept is None else np.ascontiguousarray(grid.k_pos, np.int64)


def _bias(inputs: Inputs, terms: Terms) -> tuple[tuple[int, ...], Tensor | None]:
    """Return the bias as the kernels read it, and the tensor that holds its numbers."""
    if terms.form is None or inputs.bias is None:
        return _NO_BIAS, None
    leaf = inputs.bias.detach().to(torch.float32)
    leaf = leaf if terms.form.kind == "given" else leaf.contiguous()
    columns = leaf.shape[1] if terms.form.kind == "relative" else 1
    strides = [
        step if size > 1 else 0 for step, size in zip(leaf.stride(), leaf.shape, strict=True)
    ]
    if leaf.ndim < 4:
        strides = [0, strides[0], 0, 0]
    kind = _KINDS[terms.form.kind]
    return (kind, leaf.data_ptr(), terms.form.first, columns, *strides), leaf


def _view(x: Tensor) -> tuple[int, ...]:
    return (x.data_ptr(), *x.stride()[:3], DTYPES[x.dtype])


def _rowwise(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()
