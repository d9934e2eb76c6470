"""Training over a mesh of (data, context): each row of it a batch, each column a part of a row."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hitherto.distributed import checkpoint
from hitherto.distributed.decoder import ContextParallel, mean_loss
from hitherto.distributed.failures import named_failures, require_agreement
from hitherto.errors import ModelError, explain
from hitherto.model import Decoder
from hitherto.training import Packed, State, Step, Text, TrainingConfig, teach
from hitherto.training.loss import IGNORED
from hitherto.training.optimizer import adamw, update

Data = Text | Packed
Weights = Literal["replicated", "sharded"]

DATA, CONTEXT = "data", "context"
"""Names of the mesh's dimensions."""


def mesh_of(context: int, device: str = "cpu") -> DeviceMesh:
    """Return a mesh (data, context) of all processes, `context` of them to a sequence.

    Raises:
        ModelError: when the number of processes is no multiple of `context`.
    """
    size = dist.get_world_size()
    if size % context:
        raise ModelError(
            explain("--context-parallel", f"must divide the {size} processes", context,
                    f"start a multiple of it with torchrun, e.g. --nproc-per-node {context}")
        )  # fmt: skip
    return init_device_mesh(device, (size // context, context), mesh_dim_names=(DATA, CONTEXT))


def spread(decoder: Decoder, mesh: DeviceMesh, weights: Weights = "replicated") -> nn.Module:
    """Wrap a decoder for a mesh: DDP keeps its weights whole, `fully_shard` (FSDP2) cuts them."""
    model = ContextParallel(decoder, mesh[CONTEXT])
    if weights == "replicated":
        return DistributedDataParallel(model)
    flat = mesh[DATA, CONTEXT]._flatten("all")
    for block in decoder.stack.blocks:
        fully_shard(block, mesh=flat)
    return fully_shard(model, mesh=flat)


def train(
    decoder: Decoder,
    data: bytes | Data,
    config: TrainingConfig,
    mesh: DeviceMesh,
    directory: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    weights: Weights = "replicated",
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """Train as `hitherto.training.train` does, on every process of a mesh; the same losses.

    Every rank draws the whole batch and keeps its rows and positions. The loss is the mean over all
    labels of all ranks.

    Args:
        decoder: the same on every rank; it is changed.
        data: as there.
        config: as there; `batch` counts the rows of all ranks.
        mesh: from `mesh_of`.
        directory: where checkpoints go: every `save_every_s` seconds and at the end.
        resume: first take up the checkpoint there, saved by any number of ranks.
        weights: "replicated" (DDP) or "sharded" (FSDP2).
        asked_to_stop: asked after every step, on every rank; one yes saves and ends all.
    Raises:
        ModelError: settings that do not fit, or a loss that is not finite.
        RanksDisagree: on every rank, when settings, data or masks differ.
        RankLost: when a rank died or did not answer in time; the last checkpoint stands.
    """
    source = Text(data) if isinstance(data, bytes) else data
    if config.batch % mesh.size(0):
        raise ModelError(
            explain("TrainingConfig.batch", f"must be a multiple of {mesh.size(0)} data ranks",
                    config.batch, "raise it, or use more ranks for the context")
        )  # fmt: skip
    require_agreement(dist.group.WORLD, "settings of a run", config, source.fingerprint(),
                      decoder.config, resume)  # fmt: skip
    model = spread(decoder, mesh, weights)
    optimizer = adamw(decoder, config)
    state = State(training=config, data=source.fingerprint())
    if resume:
        kept = checkpoint.load_into(directory or "", decoder, optimizer)
        state = replace(kept, training=config, data=state.data)
    run = _Run(model, decoder, source, config, mesh, optimizer)
    return run.steps(state, directory, asked_to_stop)


class _Run:
    """What stays the same from step to step."""

    def __init__(
        self, model: nn.Module, decoder: Decoder, source: Data, config: TrainingConfig,
        mesh: DeviceMesh, optimizer: torch.optim.AdamW,
    ) -> None:  # fmt: skip
        self.model, self.decoder, self.optimizer = model, decoder, optimizer
        self.source, self.config, self.mesh = source, config, mesh
        whole = isinstance(model, DistributedDataParallel)
        self.core: ContextParallel = model.module if whole else model  # type: ignore[assignment]

    def steps(
        self, state: State, directory: str | os.PathLike[str] | None, stop: Callable[[], bool]
    ) -> Iterator[Step]:
        config, saved, saved_at = self.config, state, time.monotonic()
        began, asked = time.monotonic() - state.elapsed, False
        self.model.train()
        while (progress := config.progress(state.step, state.elapsed)) < 1 and not asked:
            lr = config.learning_rate(progress)
            loss, tokens = self.backward(state.step)
            update(self.model, self.optimizer, lr, config.clip)
            due = time.monotonic() - saved_at >= config.save_every_s
            elapsed, asked, due = self._agreed(time.monotonic() - began, stop(), due)
            state = replace(
                state, step=state.step + 1, tokens=state.tokens + tokens, elapsed=elapsed
            )
            yield Step(
                step=state.step, loss=loss, lr=lr, tokens=state.tokens, elapsed=elapsed,
                progress=config.progress(state.step, elapsed),
            )  # fmt: skip
            if directory and due:
                checkpoint.save(directory, self.decoder, state, self.optimizer)
                saved, saved_at = state, time.monotonic()
        if directory and state is not saved:
            checkpoint.save(directory, self.decoder, state, self.optimizer)

    def backward(self, step: int) -> tuple[float, int]:
        """Gradients of one update, added up over all ranks; the mean loss and the token count."""
        config, ranks = self.config, dist.get_world_size()
        self.model.zero_grad(set_to_none=True)
        total, tokens = torch.zeros((), dtype=torch.float64), 0
        for part in range(config.accumulate):
            number = step * config.accumulate + part
            drawn = self.source.batch(number, config.seed, config.batch, config.context)
            loss, count = self._loss(*drawn)
            with named_failures("training"):
                # DDP and FSDP2 take the mean over ranks; parts of a mean must be added up.
                (loss * (ranks / config.accumulate)).backward()
            total += loss.detach().double().cpu() / config.accumulate
            tokens += count
        with named_failures("training"):
            dist.all_reduce(total)
        if not torch.isfinite(total):
            raise ModelError(
                explain("loss", "must be finite", f"{total.item()} at step {step + 1}",
                        "lower lr or clip")
            )  # fmt: skip
        return total.item(), tokens

    def _loss(self, batch: Tensor, documents: Tensor | None) -> tuple[Tensor, int]:
        inputs, labels = teach(batch, documents)
        count = int((labels != IGNORED).sum())
        rows = slice(self.mesh.get_local_rank(DATA), None, self.mesh.size(0))
        within = None if documents is None else documents[rows, :-1]
        share = self.core.share(inputs.shape[1], within)
        with named_failures("training"):
            logits = self.model(share(inputs[rows]), share)
        return mean_loss(logits, share(labels[rows]), count), inputs.numel()

    def _agreed(self, elapsed: float, asked: bool, due: bool) -> tuple[float, bool, bool]:
        """Let rank 0's clock count for all; stop if any rank is asked to."""
        first = dist.get_rank() == 0
        said = torch.tensor([elapsed * first, float(asked), float(due and first)])
        with named_failures("training"):
            dist.all_reduce(said)
        return float(said[0]), bool(said[1] > 0), bool(said[2] > 0)
