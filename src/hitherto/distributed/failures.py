"""What can go wrong between ranks, by name: they disagree, or one of them is gone."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
import torch.distributed as dist

from hitherto.errors import MaskError, explain
from hitherto.mask import Mask


class RanksDisagree(MaskError):
    """Ranks that were given different masks, sizes or dealings. Raised on every rank."""


class RankLost(RuntimeError):
    """A rank that died, or did not answer within the process group's timeout."""


def require_agreement(group: dist.ProcessGroup, what: str, *parts: object) -> None:
    """Raise on every rank unless all have the same parts, compared by hash.

    Cost: one message of 32 bytes a rank.
    """
    device = _device(group)
    own = torch.frombuffer(bytearray(_digest(*parts)), dtype=torch.uint8).to(device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    with named_failures(what):
        dist.all_gather(every, own, group=group)
    others = [rank for rank, one in enumerate(every) if not torch.equal(one, own)]
    if not torch.equal(torch.stack(every), torch.stack(every[:1] * len(every))):
        came = f"{parts[0]}, and something else on ranks {others}"
        raise RanksDisagree(
            explain(what, "must be the same on every rank", came, "build it from the same data")
        )


@contextmanager
def named_failures(what: str) -> Iterator[None]:
    """Turn the backends' errors into `RankLost`."""
    try:
        yield
    except RankLost:
        raise
    except RuntimeError as error:
        if not is_lost(error):
            raise
        reason = str(error).strip().splitlines()[0]
        raise RankLost(
            explain(what, "needs every rank to answer in time", reason,
                    "look for the first rank that failed; start again from the last checkpoint")
        ) from error  # fmt: skip


def is_lost(error: BaseException) -> bool:
    """Tell whether an error is that of a transport rather than of the computation."""
    text = str(error).lower()
    signs = ("gloo", "nccl", "connection", "timed out", "timeout", "broken pipe", "socket")
    return isinstance(error, dist.DistBackendError) or any(sign in text for sign in signs)


def _digest(*parts: object) -> bytes:
    seal = hashlib.sha256()
    for part in parts:
        seal.update((_text(part) if isinstance(part, Mask) else str(part)).encode() + b"\0")
    return seal.digest()


@lru_cache(maxsize=64)
def _text(mask: Mask) -> str:
    return str(mask)


def _device(group: dist.ProcessGroup) -> torch.device:
    """Return where this group's messages live."""
    return torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")
