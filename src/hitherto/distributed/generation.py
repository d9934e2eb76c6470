"""Generation over a cache that is spread over ranks: each attends over its part, all agree."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from hitherto.attention import attend
from hitherto.attention.sinks import with_sinks
from hitherto.attention.tiles import ratio
from hitherto.distributed.attend import Attend, group_of
from hitherto.distributed.cache import Sharded
from hitherto.distributed.failures import named_failures, require_agreement
from hitherto.mask import Mask
from hitherto.model import Decoder
from hitherto.model.decoder import Stack
from hitherto.model.limits import forgets


def sharded_cache(decoder: Decoder, group: dist.ProcessGroup | DeviceMesh | None = None) -> Decoder:
    """Return a decoder, of the same weights, whose caches are spread over the ranks of a group.

    It takes the place of `decoder` in `prefill`, `generate` and `Serving`; every rank calls them
    with the same prompts. Each rank runs all tokens and attends over the keys that it keeps; the
    partial results are merged in the order of ranks, so all ranks go on with the same bits.

    Cost: memory of a cache / ranks; a message of a layer's rows (heads * v_dim floats) a step.
    Raises:
        RanksDisagree: on every rank, when the decoders differ in config.
    """
    ranks = group_of(group)
    require_agreement(ranks, "decoder", decoder.config)
    return _Spread(decoder, ranks)


def merged_attend(group: dist.ProcessGroup) -> Attend:
    """Return an `attend` for queries that every rank has, and keys of which each has a part.

    It takes what `hitherto.attend` takes; `q_start` must be given, and `k_pos` says where this
    rank's keys are. No gradients.
    """

    @torch.no_grad()
    def merged(
        q: Float[Tensor, "batch heads queries head_dim"],
        k: Float[Tensor, "batch kv_heads keys head_dim"],
        v: Float[Tensor, "batch kv_heads keys v_dim"],
        mask: Mask,
        *,
        sinks: Float[Tensor, " heads"] | None = None,
        return_lse: bool = False,
        **options: object,
    ) -> Tensor | tuple[Tensor, Tensor]:
        part, lse = attend(q, k, v, mask, return_lse=True, **options)  # type: ignore[misc]
        own = torch.cat([part.to(lse.dtype), lse[..., None]], -1).contiguous()
        every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
        with named_failures("generation"):
            dist.all_gather(every, own, group=group)
        parts = torch.stack(every)
        outs, lses = parts[..., :-1], parts[..., -1]
        joined = torch.logsumexp(lses, 0)
        joined = joined if sinks is None else with_sinks(joined, sinks)
        out = (outs * ratio(lses, joined)[..., None]).sum(0).to(q.dtype)
        return (out, joined) if return_lse else out

    return merged


class _Spread(Decoder):
    """A decoder on another's weights."""

    def __init__(self, decoder: Decoder, group: dist.ProcessGroup) -> None:
        nn.Module.__init__(self)
        self.config, self.head = decoder.config, decoder.head
        self.stack = _Stack(decoder.stack, group)


class _Stack(Stack):
    """A stack on another's blocks, with caches in parts."""

    def __init__(self, stack: Stack, group: dist.ProcessGroup) -> None:
        nn.Module.__init__(self)
        self.config, self.masks, self.limits = stack.config, stack.masks, stack.limits
        for name, value in (*stack.named_children(), *stack.named_parameters(recurse=False)):
            setattr(self, name, value)
        self._group, self._merged = group, merged_attend(group)

    def forward(self, tokens, positions, masks, layout, sources=None, attend=None):
        """Let cached tokens attend over all ranks' keys, and others over their own."""
        cached = all(cache is not None for _, cache in layout)
        attend = attend or (self._merged if cached else None)
        return super().forward(tokens, positions, masks, layout, sources, attend)

    def cache(self, rolling: bool = True) -> Sequence[Sharded]:
        """An empty cache, this rank's part: one a layer."""
        rank, ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        return [Sharded(rank, ranks, m if rolling and forgets(m) else None) for m in self.masks]
