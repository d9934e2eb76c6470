"""Attention over Spans: only the tiles that the mask touches, forward and backward.

No queries x keys array exists at any time. A row whose keys lie in several tiles gets a partial
result from each, merged by log-sum-exp; the backward pass recomputes scores from the merged lse.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from hitherto.attention import explicit, fused
from hitherto.attention.bias import Corner, Form, add_gradient, tile
from hitherto.attention.plan import Alike, Job, Plan, hides, plans
from hitherto.attention.sinks import sink_gradient, with_sinks
from hitherto.attention.spoil import shielded
from hitherto.attention.terms import Inputs, Terms, corner, score_dtype
from hitherto.attention.tiles import INF, Cells, Rows, add, merge, put, ratio, take
from hitherto.errors import Unsupported, explain

Grads = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]


def run(
    inputs: Inputs, terms: Terms
) -> tuple[Float[Tensor, "batch heads queries v_dim"], Float[Tensor, "batch heads queries"]]:
    """Attend, visiting only what the mask touches.

    Cost: time O(heads * visible tiles), memory linear in queries and keys.
    """
    alike = _alike(terms, _fuses_forward(inputs, terms))
    if hides(terms.mask, terms.grid, _heads(inputs), alike):
        return shielded(_apply, inputs, terms)  # type: ignore[return-value]
    return _apply(inputs, terms)


def _apply(inputs: Inputs, terms: Terms) -> tuple[Tensor, Tensor]:
    return Tiled.apply(*inputs, terms)  # type: ignore[return-value]


class Tiled(torch.autograd.Function):
    """`forward` and `backward` below, as one differentiable step."""

    @staticmethod
    def forward(q, k, v, bias, sinks, terms):  # noqa: D102
        return forward(Inputs(q, k, v, bias, sinks), terms)

    @staticmethod
    def setup_context(ctx, inputs, output):  # noqa: D102
        ctx.terms = inputs[-1]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:-1], *output)

    @staticmethod
    def backward(ctx, grad, grad_lse):  # noqa: D102
        out = ctx.saved_tensors[-2]
        grad = torch.zeros_like(out) if grad is None else grad
        wants_bias = ctx.needs_input_grad[3]
        grads = _Gradients.apply(*ctx.saved_tensors, grad, grad_lse, ctx.terms, wants_bias)
        return *grads, None


class _Gradients(torch.autograd.Function):
    """The backward pass, which cannot be differentiated again, and says so."""

    @staticmethod
    def forward(q, k, v, bias, sinks, out, lse, grad, grad_lse, terms, wants_bias):
        inputs = Inputs(q, k, v, bias, sinks)
        return backward(inputs, terms, (out, lse), (grad, grad_lse), wants_bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise Unsupported(
            explain("backend", "must have second derivatives to be differentiated twice", "tiled",
                    'pass backend="reference"')
        )  # fmt: skip


def forward(inputs: Inputs, terms: Terms) -> tuple[Tensor, Tensor]:
    """Return out and lse, without autograd. Numbers that the mask hides must be finite."""
    fuse = _fuses_forward(inputs, terms)
    engine, exact = fused if fuse else explicit, score_dtype(inputs.q.dtype)
    parts = plans(terms.mask, terms.grid, _heads(inputs), _alike(terms, fuse))
    q, k, v = (_folded(x) for x in inputs[:3])
    merges = inputs.sinks is not None or not all(job.alone for p in parts for job in p.jobs)
    out = q.new_zeros((*q.shape[:2], v.shape[2]), dtype=exact if merges else q.dtype)
    lse = q.new_full(q.shape[:2], -INF, dtype=exact)
    for plan in parts:
        q_, k_, v_ = _of(plan.heads, q), _of(plan.kv_heads, k), _of(plan.kv_heads, v)
        out_, lse_ = _of(plan.heads, out), _of(plan.heads, lse)
        for job in plan.jobs:
            keys = (take(x, job.keys, job.count) for x in (k_, v_))
            cells = _cells(inputs, terms, plan, job)
            part = engine.forward(take(q_, job.rows, job.count), *keys, cells, terms)
            if job.alone:
                put(out_, job.rows, part[0])
                put(lse_, job.rows, part[1])
            else:
                merge(out_, lse_, job.rows, *part)
        _back(out, plan.heads, out_)
        _back(lse, plan.heads, lse_)
    out, lse = (x.unflatten(0, inputs.q.shape[:2]) for x in (out, lse))
    if inputs.sinks is not None:
        joined = with_sinks(lse, inputs.sinks)
        out, lse = out * ratio(lse, joined)[..., None], joined
    return out.to(inputs.q.dtype), lse


def backward(
    inputs: Inputs,
    terms: Terms,
    results: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor | None],
    wants_bias: bool,
) -> Grads:
    """Return the gradients of the inputs, given what `forward` returned and its gradients."""
    (out, lse), (grad, grad_lse) = results, grads
    fuse = _fuses_backward(inputs, terms, wants_bias, grad_lse)
    engine, exact = fused if fuse else explicit, score_dtype(out.dtype)
    tensors = [_folded(x) for x in inputs[:3]]
    totals = [torch.zeros_like(x, dtype=exact) for x in tensors]
    dbias = torch.zeros_like(inputs.bias, dtype=exact) if wants_bias else None
    rows = [_folded(x) for x in (inputs.q, out, lse.masked_fill(lse == -INF, 0.0), grad)]
    rows.append(None if grad_lse is None else _folded(grad_lse))
    for plan in plans(terms.mask, terms.grid, _heads(inputs), _alike(terms, fuse)):
        where = plan.heads, plan.kv_heads, plan.kv_heads
        rows_ = [None if x is None else _of(plan.heads, x) for x in rows]
        k_, v_ = (_of(plan.kv_heads, x) for x in tensors[1:])
        totals_ = [
            torch.zeros_like(x, dtype=exact) if at is not None else total
            for x, at, total in zip((rows_[0], k_, v_), where, totals, strict=True)
        ]
        for job in plan.jobs:
            tiles = Rows(*(None if x is None else take(x, job.rows, job.count) for x in rows_))
            keys = (take(x, job.keys, job.count) for x in (k_, v_))
            cells = _cells(inputs, terms, plan, job)
            dq, dk, dv, dcells = engine.backward(tiles, *keys, cells, terms)
            add(totals_[0], job.rows, dq)
            add(totals_[1], job.keys, dk)
            add(totals_[2], job.keys, dv)
            if dbias is not None:
                _add_bias(dbias, dcells, inputs, terms, plan, job)
        for total, at, part in zip(totals, where, totals_, strict=True):
            if at is not None:
                total.index_add_(0, at.to(total.device), part)
    dq, dk, dv = (
        total.view(x.shape).to(x.dtype) for total, x in zip(totals, inputs[:3], strict=True)
    )
    dbias = None if dbias is None else dbias.to(inputs.bias.dtype)
    return dq, dk, dv, dbias, sink_gradient(inputs, lse, out, grad, grad_lse)


def _heads(inputs: Inputs) -> tuple[int, int, int]:
    batch, heads = inputs.q.shape[:2]
    return batch, heads, heads // inputs.k.shape[1]


def _fuses_forward(inputs: Inputs, terms: Terms) -> bool:
    """Say whether torch's fused kernel can do a call, as exactly as torch would."""
    q, v = inputs.q, inputs.v
    # torch computes 16-bit values of another width than q's in float32, not in the fused kernel.
    exact = q.dtype == score_dtype(q.dtype) or q.shape[3] == v.shape[3]
    return q.device.type == "cpu" and terms.softcap is None and exact


def _fuses_backward(
    inputs: Inputs, terms: Terms, wants_bias: bool, grad_lse: Tensor | None
) -> bool:
    # In 16 bits the kernel's backward rounds more and, measured with AVX2, takes twice as long.
    exact = inputs.q.dtype == score_dtype(inputs.q.dtype)
    return _fuses_forward(inputs, terms) and exact and not wants_bias and grad_lse is None


def _alike(terms: Terms, fuse: bool) -> Alike:
    match terms.form:
        case None:
            return "whole" if fuse else "pattern"
        case Form(kind="given"):
            return "never"
    return "offsets"


def _folded(x: Tensor) -> Tensor:
    """Join batch and heads into one axis; a view where strides allow it."""
    x = x.flatten(0, 1)
    return x.contiguous() if x.ndim == 3 and x.stride(-1) != 1 else x


def _of(heads: Tensor | None, x: Tensor) -> Tensor:
    return x if heads is None else x[heads.to(x.device)]


def _back(into: Tensor, heads: Tensor | None, part: Tensor) -> None:
    if heads is not None:
        into[heads.to(into.device)] = part


def _cells(inputs: Inputs, terms: Terms, plan: Plan, job: Job) -> Cells:
    """Return what the tiles of a job share: visible cells and bias."""
    device = inputs.q.device
    causal = isinstance(job.pattern, str) and job.pattern == "causal"
    seen, bias = None if causal else job.seen, None
    if terms.form is not None:
        leaf = inputs.bias.detach()
        bias = tile(terms.form, leaf, _corner(terms, job, device), score_dtype(inputs.q.dtype))
        if bias.shape[:2] != (1, 1):
            bias = bias.expand(*inputs.q.shape[:2], *job.shape).flatten(0, 1)
            bias = _of(plan.heads, bias)[None]
    return Cells(None if seen is None else torch.from_numpy(seen).to(device), bias, causal)


def _corner(terms: Terms, job: Job, device: torch.device) -> Corner:
    """Return the place of the first tile; tiles share a job only where their bias is the same."""
    ends = zip((job.rows, job.keys), job.shape, strict=True)
    rows, keys = (
        torch.arange(at.start, at.stop)[:size] if isinstance(at, slice) else at[:size]
        for at, size in ends
    )
    return corner(terms.grid, rows.to(device), keys.to(device))


def _add_bias(
    into: Tensor, part: Tensor, inputs: Inputs, terms: Terms, plan: Plan, job: Job
) -> None:
    """Add a job's part of the bias gradient, (heads, queries, keys)."""
    batch, heads = inputs.q.shape[:2]
    if plan.heads is not None:
        every = part.new_zeros((batch * heads, *part.shape[1:]))
        part = every.index_copy_(0, plan.heads.to(part.device), part)
    at = _corner(terms, job, into.device)
    add_gradient(into, terms.form, part.unflatten(0, (batch, heads)), at)
