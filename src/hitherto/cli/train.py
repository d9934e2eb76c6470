"""`hitherto train`: a decoder from a file of text."""

import json as jsonlib
import sys
from pathlib import Path

from rich.console import Console

from hitherto.cli.fit import fit, open_model
from hitherto.cli.plot import plot_losses
from hitherto.cli.runs import Run, new_run, old_run
from hitherto.cli.terminal import INTERRUPTED, OK, console, say
from hitherto.cli.text import load_text
from hitherto.errors import ModelError, explain
from hitherto.model import Decoder, tiny
from hitherto.training import bits, evaluate, split


def train(text: Path, out: Path, seconds: float | None, steps: int | None, resume: bool,
          context_parallel: int | None, json: bool) -> int:  # fmt: skip
    """Train, or go on training; measure on held-out text."""
    if (seconds is None) == (steps is None):
        raise ModelError(
            explain("--seconds", "or --steps must be given, not both", f"{seconds} and {steps}",
                    "say how long to train, e.g. --seconds 60")
        )  # fmt: skip
    if context_parallel is not None:
        from hitherto.cli.ranks import train_over_ranks

        return train_over_ranks(text, out, seconds, steps, resume, context_parallel, json)
    screen = console(json)
    run = old_run(out) if resume else new_run(out)
    data, _ = load_text(text)
    learned, held_out = split(data)
    if not resume:
        run.remember({"text": str(text.absolute()), "seconds": seconds})
    model, config = open_model(run, Decoder(tiny()), seconds, steps, screen)
    done = fit(run, model, learned, config, screen)
    if not done:
        return stopped(run, run.checkpoint, screen)
    report(run, model, held_out, screen, json)
    return OK


def stopped(run: Run, kept: Path, screen: Console) -> int:
    """Say what an interrupted run has kept and how to go on."""
    say(screen, f"\nstopped; nothing is lost: {kept}", "bold")
    say(screen, f"go on with the same command and --resume --out {run.folder}")
    return INTERRUPTED


def report(run: Run, model: Decoder, held_out: bytes, screen: Console, json: bool) -> None:
    """Say how well a trained model does on held-out text, and where everything is."""
    nats = evaluate(model, held_out)
    say(screen, f"held-out text: {nats:.3f} nats = {bits(nats):.3f} bits a byte", "bold")
    say(screen, f"checkpoint  {run.checkpoint}")
    if plot_losses(run.history(), nats, run.curve):
        say(screen, f"loss curve  {run.curve}")
    if json:
        found = {"nats_per_byte": nats, "bits_per_byte": bits(nats)}
        sys.stdout.write(jsonlib.dumps(found | {"checkpoint": str(run.checkpoint)}) + "\n")
