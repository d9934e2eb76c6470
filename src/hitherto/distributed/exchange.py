"""Keys on their way: each step's are sent and received while the step before is computed."""

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from hitherto.distributed.failures import named_failures
from hitherto.distributed.route import Step
from hitherto.distributed.shards import Slots

Pair = tuple[Tensor, Tensor]
"""Keys and values, or their gradients: (batch, kv_heads, keys, ...)."""

KEYS, GRADIENTS = 0, 1
"""Tags: what kind of message this is."""


class Message:
    """A pair to one rank and a pair from another, both at once; `wait` gives what came.

    Args:
        group: the ranks.
        tag: the kind of message.
        to: the rank to send to, and what; None for nothing.
        come: the rank to receive from, how many keys, and a pair that tells the rest of the shapes.
    """

    def __init__(
        self, group: dist.ProcessGroup, tag: int, to: tuple[int, Pair | None],
        come: tuple[int, int, Pair],
    ) -> None:  # fmt: skip
        (target, gone), (source, keys, like) = to, come
        self._shapes = [(*x.shape[:2], keys, x.shape[3]) for x in like]
        self._came: Tensor | None = None
        ops = []
        if gone is not None:
            packed = torch.cat([x.reshape(-1) for x in gone])
            ops.append(dist.P2POp(dist.isend, packed, group=group, tag=tag, group_peer=target))
        if keys:
            size = sum(torch.Size(shape).numel() for shape in self._shapes)
            self._came = like[0].new_empty(size)
            ops.append(dist.P2POp(dist.irecv, self._came, group=group, tag=tag, group_peer=source))
        self._held = [op.tensor for op in ops]
        with named_failures("context_parallel"):
            self._works = dist.batch_isend_irecv(ops) if ops else []

    def wait(self) -> Pair | None:
        """Return what came, once it has; let go of what was sent."""
        with named_failures("context_parallel"):
            for work in self._works:
                work.wait()
        self._works, self._held = [], []
        if self._came is None:
            return None
        sizes = [torch.Size(shape).numel() for shape in self._shapes]
        one, two = self._came.split(sizes)
        return one.view(self._shapes[0]), two.view(self._shapes[1])


def travelling(
    steps: Sequence[Step], pair: Pair, group: dist.ProcessGroup
) -> Iterator[tuple[Step, Pair | None]]:
    """Give each step with its keys and values; the next step's are then already on their way.

    Holds the keys of two steps at a time, however many there are.
    """
    first = steps[0] if steps else None
    waiting = _sent(first, pair, group) if first else None
    for step, following in zip(steps, [*steps, None][1:], strict=True):
        came = waiting.wait() if waiting else gather(pair, step.slots)
        waiting = _sent(following, pair, group) if following else None
        yield step, came


def _sent(step: Step, pair: Pair, group: dist.ProcessGroup) -> Message | None:
    """Let a step's keys travel; None for a rank's own."""
    if step.slots:
        return None
    gone = gather(pair, step.send) if step.send else None
    return Message(group, KEYS, (step.target, gone), (step.source, step.keys, pair))


def returned(step: Step, grads: Pair | None, like: Pair, group: dist.ProcessGroup) -> Message:
    """Send gradients to where a step's keys came from; receive those of the keys sent in it."""
    keys = sum(stop - start for start, stop in step.send)
    return Message(group, GRADIENTS, (step.source, grads), (step.target, keys, like))


def gather(pair: Pair, slots: Slots) -> Pair:
    """Cut slots out and lay them side by side; a view where they are one range."""
    one, two = (
        x[:, :, slice(*slots[0])] if len(slots) == 1
        else torch.cat([x[:, :, start:stop] for start, stop in slots], 2)
        for x in pair
    )  # fmt: skip
    return one, two


def scatter(into: Pair, slots: Slots, part: Pair) -> None:
    """Add to the slots what belongs to each: the other way round than `gather`."""
    for total, x in zip(into, part, strict=True):
        first = 0
        for start, stop in slots:
            total[:, :, start:stop] += x[:, :, first : first + stop - start]
            first += stop - start
