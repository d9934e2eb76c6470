"""A decoder whose sequence is spread over ranks: every rank holds its tokens, all see as before."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from hitherto.distributed.attend import Attend, context_parallel, group_of
from hitherto.distributed.failures import require_agreement
from hitherto.distributed.plan import Plan, plan
from hitherto.distributed.shards import positions, shard
from hitherto.mask import Mask
from hitherto.model import Decoder
from hitherto.model.packing import place_documents
from hitherto.training.loss import IGNORED


@dataclass(frozen=True, eq=False)
class Share:
    """A rank's part of a sequence: call it on a whole tensor to cut the rank's part out."""

    plan: Plan
    """Of all layers together."""

    rank: int
    """Whose part this is."""

    masks: tuple[Mask, ...]
    """Of each layer, on the whole sequence."""

    positions: Int64[Tensor, "*batch queries"]
    """Of this rank's tokens, as the model counts them: from 0 in every document."""

    attend: Attend
    """Over the ranks."""

    def __call__(self, x: Tensor, dim: int = 1) -> Tensor:
        """Cut this rank's part of a whole tensor out, along `dim`."""
        return shard(x, self.plan, self.rank, dim)


class ContextParallel(nn.Module):
    """A `Decoder` over the ranks of a group, for training and scoring.

        model = ContextParallel(decoder, mesh["context"])
        share = model.share(length)
        logits = model(share(tokens), share)        # this rank's rows of decoder(tokens)

    Parameters are the decoder's own, on every rank. Wrap this module in DDP or `fully_shard` to add
    up their gradients: over the ranks of the context as well as over those of the data.

    Args:
        decoder: the model; each rank has the same.
        group: the ranks that share a sequence: a process group or a mesh of one dimension.
    """

    def __init__(
        self, decoder: Decoder, group: dist.ProcessGroup | DeviceMesh | None = None
    ) -> None:
        super().__init__()
        self.decoder = decoder
        self.group = group_of(group)

    def share(self, length: int, documents: Int64[Tensor, "batch queries"] | None = None) -> Share:
        """Plan for a sequence, and return this rank's part.

        Args:
            length: tokens of the whole sequence.
            documents: ids of packed documents as for `Decoder`, whole, on every rank.
        Raises:
            RanksDisagree: on every rank, when lengths, documents or masks differ.
        """
        stack, where = self.decoder.stack, torch.arange(length)
        masks = stack.masks
        if documents is None:
            stack.limits.require_step(0, length)
        else:
            where, masks = place_documents(documents, masks)
            stack.limits.require_room(length)
        require_agreement(self.group, "the masks of all layers", *dict.fromkeys(masks), length)
        ranks, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        made = plan(tuple(dict.fromkeys(masks)), length, length, ranks)
        device = next(self.decoder.parameters()).device
        at = positions(made, rank)
        own = where[..., at.to(where.device)].to(device)
        return Share(made, rank, masks, own, context_parallel(made, self.group))

    def forward(
        self, tokens: Int64[Tensor, "batch queries"], share: Share
    ) -> Float[Tensor, "batch queries vocab"]:
        """Logits of what follows each of this rank's tokens."""
        layout = [(slice(0, tokens.shape[1]), None)]
        hidden = self.decoder.stack(
            tokens, share.positions, share.masks, layout, attend=share.attend
        )
        return self.decoder.logits(hidden)


def mean_loss(
    logits: Float[Tensor, "batch queries vocab"],
    labels: Int64[Tensor, "batch queries"],
    count: int,
    ignored: int = IGNORED,
) -> Float[Tensor, ""]:
    """This rank's part of the mean loss, in nats: parts add up to that of one process.

    Args:
        logits: of this rank's tokens.
        labels: of this rank's tokens, shifted already.
        count: labels that are not ignored, over all ranks.
        ignored: the label of a token that has nothing to predict.
    """
    flat = logits.flatten(0, 1), labels.flatten()
    return nn.functional.cross_entropy(*flat, ignore_index=ignored, reduction="sum") / count
