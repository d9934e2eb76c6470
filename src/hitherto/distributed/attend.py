"""Exact attention over ranks: queries stay, the keys that they see travel, under any mask."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh

from hitherto.attention import check, native, tiled
from hitherto.attention.bias import Bias, split
from hitherto.attention.choose import pick
from hitherto.attention.grid import Grid
from hitherto.attention.sinks import sink_gradient, with_sinks
from hitherto.attention.spoil import is_finite
from hitherto.attention.terms import Inputs, Terms, score_dtype
from hitherto.attention.tiles import INF, ratio
from hitherto.distributed.dealing import Dealing
from hitherto.distributed.exchange import Message, Pair, returned, scatter, travelling
from hitherto.distributed.failures import require_agreement
from hitherto.distributed.plan import Plan, plan
from hitherto.distributed.route import Step, route
from hitherto.distributed.shards import dealing_of
from hitherto.errors import Unsupported, explain
from hitherto.mask import Mask

Attend = Callable[..., Tensor | tuple[Tensor, Tensor]]

SPOILT = 1e30
"""Stands for the lse of a row that met NaN: its weights come out 0, and it sends no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one parallel call asks for, apart from its tensors."""

    steps: tuple[Step, ...]
    terms: Terms
    backend: str
    group: dist.ProcessGroup


def context_parallel(
    dealt: Plan | Dealing, group: dist.ProcessGroup | DeviceMesh | None = None
) -> Attend:
    """Return an `attend` for ranks that hold a part of the positions each.

    It takes what `hitherto.attend` takes, with q, k and v holding this rank's positions (see
    `shard`) and the mask that of the whole sequence, and returns this rank's rows. Gradients of k
    and v go back to the ranks that own them. Gradients of a bias or of sinks are those of this
    rank's rows: add them up over ranks, as DDP does with those of any parameter.

    The keys of other ranks pass by one rank at a time, so memory is linear in a rank's share.
    Partial results are merged in the order of the plan, whatever arrives first: the same input
    gives the same bits.

    Args:
        dealt: a plan, or its dealing, of as many ranks as the group has.
        group: a process group, or a mesh of one dimension; all processes if None.
    Raises:
        RanksDisagree: on every rank, when masks, sizes or dealings differ (compared when a mask is
            first met).
        RankLost: when a rank died, or did not answer within the group's timeout.
        Unsupported: a bias that is a tensor: use Alibi or Relative.
    """
    dealing, ranks = dealing_of(dealt), group_of(group)
    _require_ranks(dealing, dist.get_world_size(ranks))
    agreed: set[object] = set()

    def attend(
        q: Float[Tensor, "batch heads queries head_dim"],
        k: Float[Tensor, "batch kv_heads keys head_dim"],
        v: Float[Tensor, "batch kv_heads keys v_dim"],
        mask: Mask,
        *,
        bias: Bias | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: Float[Tensor, " heads"] | None = None,
        q_start: None = None,
        k_pos: None = None,
        return_lse: bool = False,
        backend: str = "auto",
    ) -> Tensor | tuple[Tensor, Tensor]:
        _require_call(q, k, v, mask, bias, scale, softcap, sinks)
        _require_no_cache(q_start, k_pos)
        rank = dist.get_rank(ranks)
        asked = (mask, q.shape[:2], q.shape[3], k.shape[1], v.shape[3], q.dtype, scale, softcap)
        if asked not in agreed:
            fits = _fits(q, k, dealing, rank)
            seal = dealing.cuts.tolist(), dealing.owner.tolist(), dealing.k_len
            require_agreement(ranks, "mask", *asked, *seal, fits)
            agreed.add(asked)
        _require_share(q, k, dealing, rank)
        first, stop = int(dealing.cuts[0]), int(dealing.cuts[-1])
        made = plan(mask, stop - first, dealing.k_len, dealing.ranks, q_start=first,
                    dealing=dealing)  # fmt: skip
        form, leaf = split(bias)
        terms = Terms(
            mask=mask, grid=Grid(q_start=0, q_len=0, k_len=0), softcap=softcap, form=form,
            scale=q.shape[3] ** -0.5 if scale is None else float(scale),
        )  # fmt: skip
        call = Call(steps=route(made, rank), terms=terms, backend=backend, group=ranks)
        out, lse = _Parallel.apply(q, k, v, leaf, sinks, call)
        return (out, lse) if return_lse else out

    return attend


class _Parallel(torch.autograd.Function):
    """`forward` and `backward` below, as one differentiable step."""

    @staticmethod
    def forward(ctx, q, k, v, bias, sinks, call):
        inputs = Inputs(q, k, v, bias, sinks)
        out, lse = forward(inputs, call)
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, out, lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, grad_lse):
        *tensors, out, lse = ctx.saved_tensors
        grad = torch.zeros_like(out) if grad is None else grad
        wants_bias = ctx.needs_input_grad[3]
        grads = backward(Inputs(*tensors), ctx.call, (out, lse), (grad, grad_lse), wants_bias)
        return *grads, None


def forward(inputs: Inputs, call: Call) -> tuple[Tensor, Tensor]:
    """Return this rank's rows and their lse, merged step by step. No autograd."""
    q, k, v = (x.detach() for x in inputs[:3])
    exact = score_dtype(q.dtype)
    out = q.new_zeros((*q.shape[:3], v.shape[3]), dtype=exact)
    lse = q.new_full(q.shape[:3], -INF, dtype=exact)
    for step, came in travelling(call.steps, (k, v), call.group):
        for rows, keys, grid in step.parts:
            part, terms = _part(inputs, came, rows, keys), replace(call.terms, grid=grid)
            one, one_lse = _engine(part, terms, call.backend).run(part, terms)
            joined = torch.logaddexp(lse[:, :, rows], one_lse)
            kept, new = ratio(lse[:, :, rows], joined), ratio(one_lse, joined)
            out[:, :, rows] = out[:, :, rows] * kept[..., None] + one * new[..., None]
            lse[:, :, rows] = joined
    if inputs.sinks is not None:
        joined = with_sinks(lse, inputs.sinks)
        out, lse = out * ratio(lse, joined)[..., None], joined
    return out.to(q.dtype), lse


def backward(
    inputs: Inputs,
    call: Call,
    results: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor | None],
    wants_bias: bool,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of this rank's tensors, from the merged results.

    Keys travel again, and their gradients travel back step by step.
    """
    inputs = Inputs(*(None if x is None else x.detach() for x in inputs))
    dsinks = sink_gradient(inputs, results[1], results[0], *grads)
    rows_of = _finite_rows(results, grads)
    inputs = inputs if is_finite(inputs) else _finite(inputs)
    exact = score_dtype(inputs.q.dtype)
    dq, dk, dv = (torch.zeros_like(x, dtype=exact) for x in inputs[:3])
    dbias = torch.zeros_like(inputs.bias, dtype=exact) if wants_bias else None
    waiting: tuple[Step, Message] | None = None
    for step, came in travelling(call.steps, inputs[1:3], call.group):
        back = None
        if came is not None:
            back = torch.zeros_like(came[0], dtype=exact), torch.zeros_like(came[1], dtype=exact)
        for rows, keys, grid in step.parts:
            part, terms = _part(inputs, came, rows, keys), replace(call.terms, grid=grid)
            # The native kernels read an lse without strides.
            some = [None if x is None else x[:, :, rows].contiguous() for x in rows_of]
            engine = _engine(part, terms, call.backend)
            found = engine.backward(part, terms, some[:2], some[2:], wants_bias)
            dq[:, :, rows] += found[0]
            for total, x in zip(back, found[1:3], strict=True):
                total[:, :, keys] += x
            if dbias is not None:
                dbias += found[3]
        if step.slots:
            scatter((dk, dv), step.slots, back)
            continue
        _arrived(waiting, (dk, dv))
        waiting = step, returned(step, back, (dk, dv), call.group)
    _arrived(waiting, (dk, dv))
    found = (dq, dk, dv, dbias)
    return *(
        None if x is None else x.to(y.dtype) for x, y in zip(found, inputs, strict=False)
    ), dsinks


def _arrived(waiting: tuple[Step, Message] | None, into: Pair) -> None:
    """Add the gradients of own keys that another rank sent back."""
    if waiting is not None:
        step, message = waiting
        came = message.wait()
        if came is not None:
            scatter(into, step.send, came)


def _part(inputs: Inputs, came: Pair, rows: slice, keys: slice) -> Inputs:
    """Return a call on some own rows and some keys; sinks join when all keys are merged."""
    k, v = (x[:, :, keys] for x in came)
    return Inputs(inputs.q.detach()[:, :, rows], k, v, _plain(inputs.bias), None)


def _plain(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach()


def _engine(inputs: Inputs, terms: Terms, backend: str):
    """Return the module that computes a part: one whose backward takes merged results."""
    chosen = pick(inputs, terms, True, backend).backend
    return native if chosen == "native" else tiled


def _finite_rows(
    results: tuple[Tensor, Tensor], grads: tuple[Tensor, Tensor | None]
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return (out, lse, grad, grad_lse) in which rows that met NaN send nothing back."""
    (out, lse), (grad, grad_lse) = results, grads
    bad = lse.isnan()
    if not bad.any():
        return out, lse, grad, grad_lse
    out, grad = (x.masked_fill(bad[..., None], 0.0) for x in (out, grad))
    grad_lse = None if grad_lse is None else grad_lse.masked_fill(bad, 0.0)
    return out, lse.masked_fill(bad, SPOILT), grad, grad_lse


def _finite(inputs: Inputs) -> Inputs:
    q, k, v = (torch.where(torch.isfinite(x), x, 0.0) for x in inputs[:3])
    return inputs._replace(q=q, k=k, v=v)


def group_of(group: dist.ProcessGroup | DeviceMesh | None) -> dist.ProcessGroup:
    """Return the process group of a mesh of one dimension; all processes for None."""
    if isinstance(group, DeviceMesh):
        return group.get_group()
    return dist.group.WORLD if group is None else group


def _require_ranks(dealing: Dealing, size: int) -> None:
    if dealing.ranks != size:
        raise ValueError(
            explain("context_parallel(dealt)", f"must be for the group's {size} ranks",
                    dealing.ranks, "plan for as many ranks")
        )  # fmt: skip


def _require_call(q, k, v, mask, bias, scale, softcap, sinks) -> None:
    check.require_tensors(q, k, v)
    check.require_numbers(scale, softcap)
    check.require_mask(mask, *q.shape[:2])
    check.require_sinks(sinks, q.shape[1])
    if isinstance(bias, Tensor):
        raise Unsupported(
            explain("bias", "must be one of positions, since no rank has every row and key",
                    f"a tensor of shape {tuple(bias.shape)}", "use Alibi or Relative")
        )  # fmt: skip
    check.require_bias(bias, (*q.shape[:3], k.shape[2]))


def _require_no_cache(q_start: int | None, k_pos: object) -> None:
    if q_start is not None or k_pos is not None:
        raise Unsupported(
            explain("q_start, k_pos", "must be None: the plan says which positions a rank holds",
                    (q_start, k_pos), "use hitherto.distributed.sharded_cache for a cache")
        )  # fmt: skip


def _fits(q: Tensor, k: Tensor, dealing: Dealing, rank: int) -> bool:
    return (q.shape[2], k.shape[2]) == _own(dealing, rank)


def _own(dealing: Dealing, rank: int) -> tuple[int, int]:
    group, lo, hi = dealing.keys
    return int(dealing.tokens[rank]), int((hi - lo)[group == rank].sum())


def _require_share(q: Tensor, k: Tensor, dealing: Dealing, rank: int) -> None:
    if not _fits(q, k, dealing, rank):
        rows, keys = _own(dealing, rank)
        raise ValueError(
            explain("q, k", f"must hold rank {rank}'s {rows} queries and {keys} keys",
                    f"{q.shape[2]} and {k.shape[2]}", "cut them with hitherto.distributed.shard")
        )  # fmt: skip
