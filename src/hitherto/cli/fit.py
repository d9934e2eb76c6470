"""Train into a run's folder, so that Ctrl-C at any moment loses nothing."""

import json
from contextlib import closing
from dataclasses import replace

from rich.console import Console

from hitherto.cli.checkpoints import load_decoder
from hitherto.cli.interrupt import Interrupt
from hitherto.cli.meter import Meter
from hitherto.cli.runs import Run
from hitherto.cli.terminal import say
from hitherto.model import Decoder
from hitherto.training import Step, TrainingConfig, exists, train


def fit(run: Run, model: Decoder, data: bytes, config: TrainingConfig, out: Console) -> bool:
    """Train until the config's steps or seconds are spent; False when asked to stop before.

    A run with a checkpoint is continued, one without begins. Every step is logged.
    """
    resume = exists(run.checkpoint)
    with (
        Interrupt() as stop,
        run.losses.open("a", buffering=1) as log,
        closing(train(model, data, config, run.checkpoint, resume=resume)) as steps,
        Meter(out) as meter,
    ):
        for step in steps:
            log.write(logged(step))
            meter.show(step)
            if stop.asked:
                break
    return not stop.asked


def logged(step: Step) -> str:
    """A step as a line of a run's log."""
    line = {"step": step.step, "loss": step.loss, "lr": step.lr, "elapsed": step.elapsed}
    return json.dumps(line) + "\n"


def open_model(run: Run, fresh: Decoder, seconds: float | None, steps: int | None,
               out: Console) -> tuple[Decoder, TrainingConfig]:  # fmt: skip
    """Return the model and settings to train with: the run's own when it has a checkpoint."""
    if not exists(run.checkpoint):
        run.rewind(0)
        return fresh, TrainingConfig(seconds=seconds, steps=steps)
    model, state = load_decoder(run.checkpoint)
    run.rewind(state.step)
    say(out, f"continuing {run.folder} after step {state.step:,}")
    before = state.training or TrainingConfig(seconds=seconds, steps=steps)
    return model, replace(before, seconds=seconds, steps=steps)
