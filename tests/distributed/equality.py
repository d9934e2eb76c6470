"""What the ranks of `test_attend` do: every mask in turn, against one process."""

import pytest
import torch
from torch import Tensor

import hitherto
from attention.cases import KEYS, MASKS, QUERIES, tensors
from hitherto.attention import Alibi, Relative
from hitherto.distributed import (
    ContextParallel,
    Plan,
    RanksDisagree,
    context_parallel,
    plan,
    shard,
    unshard,
)
from hitherto.errors import Unsupported
from hitherto.mask import Causal, Mask, Window
from hitherto.model import Decoder, tiny

WAYS = ("best", "dealt", "folded", "zigzag")


def options(number: int, heads: int) -> dict:
    """Return what else a call asks for, in turn: also tensors that take a gradient."""
    random = torch.Generator().manual_seed(number)
    numbers = torch.randn(heads, 41, generator=random, dtype=torch.float64)
    return [
        {},
        {"bias": Alibi(numbers[:, 0].abs().requires_grad_())},
        {"bias": Relative(numbers.requires_grad_(), first=-35), "softcap": 3.0},
        {"sinks": numbers[:, 1].clone().requires_grad_(), "scale": 0.3},
    ][number % 4]


def leaves_of(found: dict) -> list[Tensor]:
    """Return the tensors among the options that take a gradient."""
    bias = found.get("bias")
    held = [getattr(bias, name) for name in ("slopes", "table") if hasattr(bias, name)]
    return held + [found[name] for name in ("sinks",) if name in found]


def own_keys(x: Tensor, made: Plan, rank: int) -> Tensor:
    """Return a rank's keys of a whole tensor (batch, kv_heads, keys, ...)."""
    group, lo, hi = made.dealing.keys
    own = [x[:, :, a:b] for g, a, b in zip(group, lo, hi, strict=True) if g == rank]
    return torch.cat([x[:, :, :0], *own], 2)


def run(attend, q, k, v, grads, mask: Mask, found: dict) -> list[Tensor]:
    """Return out, lse and all gradients of one call; those of options last."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    extra = leaves_of(found)
    out, lse = attend(*leaves, mask, return_lse=True, **found)
    seen = lse > -torch.inf
    total = (out * grads[0]).sum() + (lse[seen] * grads[1][seen]).sum()
    gradients = torch.autograd.grad(total, [*leaves, *extra], allow_unused=True)
    gradients = [torch.zeros_like(x) if g is None else g
                 for g, x in zip(gradients, [*leaves, *extra], strict=True)]  # fmt: skip
    return [out.detach(), lse.detach(), *gradients]


def every_mask(rank: int, ranks: int, names: list[str], dtype=torch.float64) -> dict[str, float]:
    """Return the largest error of each mask, as a share of what rounding explains.

    That is 64 roundings of the largest number, more for an option, whose gradient sums all cells;
    and 4 times what tiles in one process, which also add in another order, differ from the plain
    reference.
    """
    return {name: _error(rank, ranks, number, name, dtype) for number, name in enumerate(names)}


def _error(rank: int, ranks: int, number: int, name: str, dtype: torch.dtype) -> float:
    mask, way = MASKS[name], WAYS[number % len(WAYS)]
    layout = ("gqa", "mha", "mqa", "wide_v")[number % 4] if name != "per_group" else "gqa"
    q, k, v, grad = (x.to(dtype) for x in tensors(layout, QUERIES, KEYS, seed=number))
    grad_lse = torch.randn(q.shape[:3], generator=torch.Generator().manual_seed(7), dtype=dtype)
    heads = q.shape[1]
    whole = run(hitherto.attend, q, k, v, (grad, grad_lse), mask, options(number, heads))
    other = options(number, heads) | {"backend": "tiled"}
    tiles = run(hitherto.attend, q, k, v, (grad, grad_lse), mask, other)
    made = plan(mask, QUERIES, KEYS, ranks, dealing=way)
    part = [shard(x, made, rank, 2) for x in (q, grad, grad_lse)]
    keys = [own_keys(x, made, rank) for x in (k, v)]
    attend = context_parallel(made)
    found = run(attend, part[0], *keys, part[1:], mask, options(number, heads))
    again = run(attend, part[0], *keys, part[1:], mask, options(number, heads))
    assert all(torch.equal(x, y) for x, y in zip(found, again, strict=True)), (
        f"{name}: not the same bits"
    )
    for x in found[5:]:
        torch.distributed.all_reduce(x)
    expected = [shard(x, made, rank, 2) for x in whole[:3]]
    expected += [own_keys(x, made, rank) for x in whole[3:5]] + whole[5:]
    worst = 0.0
    for at, (ours, theirs, full, tiled) in enumerate(
        zip(found, expected, whole, tiles, strict=True)
    ):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        finite, everywhere = torch.isfinite(theirs), torch.isfinite(full)
        assert torch.equal(ours[~finite], theirs[~finite]), name
        if not finite.any():
            continue
        own = (tiled - full)[everywhere].abs().max().item()
        size = max(full[everywhere].abs().max().item(), 1e-30)
        # A gradient of an option sums every cell of a head; rounding grows with the root of them.
        roundings = 64 if at < 5 else 4 * (QUERIES * KEYS) ** 0.5
        # Weights are exp(score - lse), so they round by the size of lse, which a bias makes large.
        far = whole[1].nan_to_num(neginf=0.0).abs().max().item() if at != 1 else 1.0
        budget = roundings * max(far / 16, 1) * torch.finfo(dtype).eps * size + 4 * own
        worst = max(worst, (ours - theirs)[finite].abs().max().item() / budget)
    return worst


def refuses(rank: int, ranks: int) -> None:
    """Meet every refusal, on every rank, and go on after it."""
    made = plan(Causal(), 60, 60, ranks)
    q, k, v, _ = (x[:, :, :60] for x in tensors("mha", 60, 60))
    part = [shard(x, made, rank, 2) for x in (q, k, v)]
    attend = context_parallel(made)
    with pytest.raises(RanksDisagree, match="same on every rank"):
        attend(*part, Causal() if rank else Window(7))
    with pytest.raises(RanksDisagree, match="same on every rank"):
        attend(*part, Causal(), softcap=2.0 + rank)
    with pytest.raises(RanksDisagree, match="same on every rank"):
        ContextParallel(Decoder(tiny())).share(40 + rank)
    with pytest.raises(Unsupported, match="Alibi or Relative"):
        attend(*part, Causal(), bias=torch.zeros(60, 60, dtype=torch.float64))
    with pytest.raises(Unsupported, match="k_pos"):
        attend(*part, Causal(), q_start=0)
    with pytest.raises(ValueError, match="queries and"):
        attend(q, k, v, Causal())
    with pytest.raises(ValueError, match="ranks"):
        context_parallel(plan(Causal(), 60, 60, ranks + 1))
    with pytest.raises(ValueError, match="queries on axis"):
        shard(q, plan(Causal(), 61, 61, ranks), rank, 2)
    assert torch.equal(unshard(part[0], made, dim=2), q)
    attend(*part, Causal())


def spoilt(rank: int, ranks: int) -> None:
    """NaN in a key and a value: rows that see it are NaN, all else is as if it were not there."""
    made = plan(Causal(), 60, 60, ranks)
    q, k, v, grad = (x[:, :, :60] for x in tensors("gqa", 60, 60))
    k[0, 0, 33], v[1, 1, 50] = float("nan"), float("inf")
    calls = [q, k, v], [shard(x, made, rank, 2) for x in (q, k, v)]
    grads = grad, shard(grad, made, rank, 2)
    found = []
    for attend, call, pull in zip(
        (hitherto.attend, context_parallel(made)), calls, grads, strict=True
    ):
        leaves = [x.clone().requires_grad_() for x in call]
        out = attend(*leaves, Causal())
        found.append([out, *torch.autograd.grad(out, leaves, pull)])
    for whole, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, shard(whole, made, rank, 2), equal_nan=True)
    assert not any(x.isnan().any() for x in found[1][1:])


def in_float32(rank: int, ranks: int, length: int) -> dict[str, float]:
    """Return the error of our outputs and gradients, as a multiple of one process's own."""
    found = {}
    for name, mask in {"causal": Causal(), "window": Causal() & Window(200)}.items():
        exact = tensors("gqa", length, length)
        plain = [x.float() for x in exact]
        made = plan(mask, length, length, ranks)
        part = [shard(x, made, rank, 2) for x in plain]
        zero = torch.zeros(()).expand(exact[0].shape[:3])
        truth = run(hitherto.attend, *exact[:3], (exact[3], zero.double()), mask, {})
        alone = run(hitherto.attend, *plain[:3], (plain[3], zero), mask, {})
        ours = run(
            context_parallel(made), *part[:3], (part[3], shard(zero, made, rank, 2)), mask, {}
        )
        worst = 0.0
        for x, one, right in zip(ours, alone, truth, strict=True):
            own, theirs = (shard(y, made, rank, 2).double() for y in (right, one))
            rounding = torch.finfo(torch.float32).eps * _rms(own)
            worst = max(worst, _rms(x.double() - own) / (_rms(theirs - own) + rounding))
        found[name] = worst
    return found


def _rms(x: Tensor) -> float:
    return x.square().mean().sqrt().item()
