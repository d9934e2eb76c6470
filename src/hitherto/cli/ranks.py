"""`hitherto train --context-parallel N`: the same training, on the processes of a torchrun."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console

from hitherto.cli.fit import logged
from hitherto.cli.interrupt import Interrupt
from hitherto.cli.meter import Meter
from hitherto.cli.runs import Run, new_run, old_run
from hitherto.cli.terminal import OK, console
from hitherto.cli.text import load_text
from hitherto.cli.train import report, stopped
from hitherto.distributed import RankLost, checkpoint, mesh_of
from hitherto.distributed import train as train_together
from hitherto.errors import ModelError, explain
from hitherto.model import Decoder, tiny
from hitherto.training import TrainingConfig, save, split

PATIENCE_S = 120
"""Seconds that a rank waits for another before the run ends."""


def train_over_ranks(
    text: Path, out: Path, seconds: float | None, steps: int | None, resume: bool, context: int,
    json: bool,
) -> int:  # fmt: skip
    """Train on every process; rank 0 keeps the run's folder and reports."""
    with _group() as rank:
        screen = console(json) if rank == 0 else Console(quiet=True)
        run = _run(out, resume, {"text": str(text.absolute()), "seconds": seconds})
        data, _ = load_text(text)
        learned, held_out = split(data)
        decoder, config = Decoder(tiny()), TrainingConfig(seconds=seconds, steps=steps)
        done = _fit(run, decoder, learned, config, context, resume, screen)
        if not done:
            return stopped(run, _parts(run), screen)
        if rank == 0:
            save(run.checkpoint, decoder)
            report(run, decoder, held_out, screen, json)
        dist.barrier()
    return OK


@contextmanager
def _group() -> Iterator[int]:
    """Join the processes of a torchrun."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(os.environ):
        raise ModelError(
            explain("--context-parallel", "needs processes that torchrun started",
                    "one process", "write torchrun --nproc-per-node N -m hitherto.cli train ...")
        )  # fmt: skip
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=PATIENCE_S))
    try:
        yield dist.get_rank()
        dist.destroy_process_group()
    except RankLost as error:
        raise ModelError(str(error)) from error


def _run(out: Path, resume: bool, settings: dict) -> Run:
    """Return the run's folder, which rank 0 alone prepares."""
    if dist.get_rank() == 0:
        run = old_run(out) if resume else new_run(out)
        if not resume:
            run.remember(settings)
    dist.barrier()
    return Run(out)


def _parts(run: Run) -> Path:
    """Return where the ranks write their checkpoints; the plain one comes at the end."""
    return run.folder / "ranks"


def _fit(run: Run, decoder: Decoder, data: bytes, config: TrainingConfig, context: int,
         resume: bool, screen: Console) -> bool:  # fmt: skip
    """Train until the config is spent; False when any rank was asked to stop before."""
    resume = resume and checkpoint.exists(_parts(run))
    first, progress = dist.get_rank() == 0, 0.0
    if first and resume:
        run.rewind(checkpoint.load(_parts(run))[1].step)
    log = run.losses.open("a", buffering=1) if first else nullcontext()
    with Interrupt() as stop, log, Meter(screen) as meter:
        steps = train_together(
            decoder, data, config, mesh_of(context), _parts(run), resume=resume,
            asked_to_stop=lambda: stop.asked,
        )  # fmt: skip
        for step in steps:
            progress = step.progress
            if first:
                log.write(logged(step))  # type: ignore[union-attr]
            meter.show(step)
    return progress >= 1
