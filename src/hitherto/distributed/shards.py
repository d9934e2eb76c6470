"""A rank's share of a tensor: the positions that its stretches of the dealing hold, in order."""

from functools import lru_cache

import torch
import torch.distributed as dist
from jaxtyping import Int64
from torch import Tensor

from hitherto.distributed.dealing import Dealing
from hitherto.distributed.failures import named_failures
from hitherto.distributed.plan import Plan
from hitherto.errors import explain

Slots = tuple[tuple[int, int], ...]
"""Ranges `[start, stop)` of a local axis."""


def positions(plan: Plan | Dealing, rank: int) -> Int64[Tensor, " queries"]:
    """Return the positions of a rank's queries, ascending."""
    rows = dealing_of(plan).queries(rank).tolist()
    return torch.cat([torch.arange(0), *(torch.arange(start, stop) for start, stop in rows)])


def shard(x: Tensor, plan: Plan | Dealing, rank: int, dim: int = 1) -> Tensor:
    """Return a rank's part of a tensor that has every query along `dim`. Differentiable.

    Raises:
        ValueError: when `dim` does not hold the plan's queries.
    """
    cuts = dealing_of(plan).cuts
    if x.shape[dim] != cuts[-1] - cuts[0]:
        raise ValueError(
            explain("shard(x)", f"must have the plan's {cuts[-1] - cuts[0]} queries on axis {dim}",
                    str(tuple(x.shape)), "pass the whole tensor, or plan for its length")
        )  # fmt: skip
    at = positions(plan, rank) - int(cuts[0])
    return x.index_select(dim, at.to(x.device))


def unshard(
    x: Tensor, plan: Plan | Dealing, group: dist.ProcessGroup | None = None, dim: int = 1
) -> Tensor:
    """Return the whole tensor, on every rank, from each rank's part. Not differentiable.

    Cost: memory of the whole.
    """
    dealing = dealing_of(plan)
    every = [
        x.new_empty([*x.shape[:dim], int(n), *x.shape[dim + 1 :]]) for n in dealing.tokens.tolist()
    ]
    own = dist.get_rank(group)
    with named_failures("unshard"):
        # Parts differ in length, which all_gather does not take on every backend.
        for rank, part in enumerate(every):
            if rank == own:
                part.copy_(x.detach())
            dist.broadcast(part, group=group, group_src=rank)
    order = torch.cat([positions(dealing, rank) for rank in range(dealing.ranks)])
    return torch.cat(every, dim).index_select(dim, order.argsort().to(x.device))


def dealing_of(plan: Plan | Dealing) -> Dealing:
    """Return the dealing itself."""
    return plan.dealing if isinstance(plan, Plan) else plan


@lru_cache(maxsize=256)
def key_starts(dealing: Dealing, rank: int) -> tuple[tuple[int, int, int], ...]:
    """Return (first position, position after the last, first slot) of each own key stretch."""
    group, lo, hi = dealing.keys
    own, slot, found = group == rank, 0, []
    for start, stop in zip(lo[own].tolist(), hi[own].tolist(), strict=True):
        found.append((start, stop, slot))
        slot += stop - start
    return tuple(found)
