"""`attend` as a torch operator, for torch.compile and torch.export.

A graph holds tensors, numbers and strings, so a mask travels as its text and is parsed when the
operator runs. Eager calls do not come here. Combine masks outside the compiled function: torch
cannot follow `Causal() & Window(4)` inside it, and raises.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree

import hitherto.mask
from hitherto.attention import native, tiled
from hitherto.attention.bias import Alibi, Bias, Relative, split
from hitherto.attention.choose import pick
from hitherto.attention.prepare import prepare
from hitherto.attention.run import run
from hitherto.attention.spoil import is_finite
from hitherto.attention.terms import Inputs, Terms, score_dtype
from hitherto.errors import Unsupported, explain
from hitherto.mask import Mask, parse

# A compiled function must be compiled anew for a mask that is not equal to the one it has seen.
# torch compares arguments that way once their class is registered as a constant.
for _node in vars(hitherto.mask).values():
    if isinstance(_node, type) and issubclass(_node, Mask):
        _pytree.register_constant(_node)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    bias: Bias | None,
    scale: float | None,
    softcap: float | None,
    sinks: Tensor | None,
    q_start: int | None,
    k_pos: Tensor | np.ndarray | None,
    return_lse: bool,
    backend: str,
) -> tuple[Tensor, Tensor]:
    """Put one `hitherto::attend` node into the graph that is being traced.

    Raises:
        Unsupported: a mask with a Predicate, which has no text. Fix: bind it into a Table first.
    """
    form, leaf = split(bias)
    kind, first = ("none", 0) if form is None else (form.kind, form.first)
    k_pos = torch.from_numpy(k_pos) if isinstance(k_pos, np.ndarray) else k_pos
    return _attend(q, k, v, leaf, sinks, k_pos, _text(mask), kind, first, scale, softcap, q_start,
                   return_lse, backend)  # fmt: skip


def _text(mask: Mask) -> str:
    text = str(mask)
    if "Predicate(" in text:
        raise Unsupported(
            explain("mask", "must have a text form under torch.compile and torch.export", text,
                    "turn each Predicate into Table(evaluate(predicate, q_pos, k_pos))")
        )  # fmt: skip
    return text


# What `torch.compiler.assume_constant_result` sets; the decorator itself imports the compiler,
# which takes as long as all of torch.
_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=256)
def _mask(text: str) -> Mask:
    return parse(text)


@torch.library.custom_op("hitherto::attend", mutates_args=())
def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    leaf: Tensor | None,
    sinks: Tensor | None,
    k_pos: Tensor | None,
    mask: str,
    kind: str,
    first: int,
    scale: float | None,
    softcap: float | None,
    q_start: int | None,
    return_lse: bool,
    backend: str,
) -> tuple[Tensor, Tensor]:
    inputs, terms = _prepared(
        (q, k, v, leaf, sinks, k_pos), (mask, kind, first, scale, softcap, q_start)
    )
    out, lse = run(inputs, terms, return_lse, backend)
    if lse is None:
        lse = q.new_zeros(q.shape[:3], dtype=score_dtype(q.dtype))
    return out.contiguous(), lse.contiguous()


@_attend.register_fake
def _(q, k, v, leaf, sinks, k_pos, mask, *rest):
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    return out, q.new_empty(q.shape[:3], dtype=score_dtype(q.dtype))


@torch.library.custom_op("hitherto::attend_backward", mutates_args=())
def _attend_backward(
    grad: Tensor,
    grad_lse: Tensor | None,
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    leaf: Tensor | None,
    sinks: Tensor | None,
    k_pos: Tensor | None,
    mask: str,
    kind: str,
    first: int,
    scale: float | None,
    softcap: float | None,
    q_start: int | None,
    return_lse: bool,
    backend: str,
    wants_bias: bool,
) -> list[Tensor]:
    inputs, terms = _prepared(
        (q, k, v, leaf, sinks, k_pos), (mask, kind, first, scale, softcap, q_start)
    )
    name = pick(inputs, terms, return_lse, backend).backend
    if name == "native" and wants_bias and kind == "given":
        name = "tiled"  # from the same lse; native has no gradient of such a bias
    engine = {"tiled": tiled, "native": native}.get(name)
    if engine and is_finite(inputs):
        grads = engine.backward(inputs, terms, (out, lse), (grad, grad_lse), wants_bias)
    else:
        grads = _again(inputs, terms, return_lse, backend, grad, grad_lse)
    held = [x for x in inputs if x is not None]
    found = [g for g, x in zip(grads, inputs, strict=True) if x is not None]
    return [
        torch.zeros_like(x) if g is None else g.contiguous()
        for g, x in zip(found, held, strict=True)
    ]


@_attend_backward.register_fake
def _(grad, grad_lse, out, lse, q, k, v, leaf, sinks, *rest):
    held = [x for x in (q, k, v, leaf, sinks) if x is not None]
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in held]


def _again(
    inputs: Inputs,
    terms: Terms,
    return_lse: bool,
    backend: str,
    grad: Tensor,
    grad_lse: Tensor | None,
) -> list[Tensor | None]:
    """Differentiate a second run: what the dense backends keep would not fit into a graph."""
    at = [i for i, x in enumerate(inputs) if x is not None]

    def call(*held: Tensor) -> tuple[Tensor, ...]:
        full = Inputs(**{inputs._fields[i]: x for i, x in zip(at, held, strict=True)},
                      **{inputs._fields[i]: None for i in range(5) if i not in at})  # fmt: skip
        out, lse = run(full, terms, return_lse, backend)
        return (out,) if grad_lse is None else (out, lse)  # type: ignore[return-value]

    _, pull = torch.func.vjp(call, *(inputs[i] for i in at))
    found = dict(zip(at, pull((grad,) if grad_lse is None else (grad, grad_lse)), strict=True))
    return [found.get(i) for i in range(5)]


def _setup(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.rest = inputs[6:]
    ctx.save_for_backward(*output, *inputs[:6])


def _differentiate(ctx: Any, grad: Tensor, grad_lse: Tensor) -> tuple:
    out, lse, *tensors = ctx.saved_tensors
    return_lse = ctx.rest[-2]
    found = iter(_attend_backward(grad, grad_lse if return_lse else None, out, lse, *tensors,
                                  *ctx.rest, ctx.needs_input_grad[3]))  # fmt: skip
    grads = [None if x is None else next(found) for x in tensors[:5]]
    return *grads, None, *(None for _ in ctx.rest)


_attend.register_autograd(_differentiate, setup_context=_setup)


def _prepared(tensors: tuple, numbers: tuple) -> tuple[Inputs, Terms]:
    q, k, v, leaf, sinks, k_pos = tensors
    text, kind, first, scale, softcap, q_start = numbers
    bias = {
        "none": lambda: None,
        "alibi": lambda: Alibi(leaf),
        "relative": lambda: Relative(leaf, first),
        "given": lambda: leaf,
    }[kind]()
    return prepare(q, k, v, _mask(text), bias, scale, softcap, sinks, q_start, k_pos)
