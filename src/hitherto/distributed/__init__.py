"""Beyond one machine: context parallelism for any mask, planned before it is run."""

import importlib

from hitherto.distributed.dealing import Dealing
from hitherto.distributed.plan import Plan, Transfer, plan
from hitherto.distributed.topology import Layer, Topology

_LAZY = {
    "ContextParallel": "decoder",
    "Share": "decoder",
    "mean_loss": "decoder",
    "mesh_of": "training",
    "spread": "training",
    "train": "training",
    "RankLost": "failures",
    "RanksDisagree": "failures",
    "context_parallel": "attend",
    "Sharded": "cache",
    "merged_attend": "generation",
    "positions": "shards",
    "sharded_cache": "generation",
    "shard": "shards",
    "unshard": "shards",
}
"""Names that need torch, and their modules: a plan is made without it."""

__all__ = ["Dealing", "Layer", "Plan", "Topology", "Transfer", "plan", *sorted(_LAZY)]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
