"""The training loop."""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from torch import nn

from hitherto.errors import ModelError, explain
from hitherto.training.batches import Packed, Text
from hitherto.training.checkpoint import State, load, load_optimizer, save
from hitherto.training.config import TrainingConfig
from hitherto.training.interrupts import held_interrupts
from hitherto.training.loss import cross_entropy, teach
from hitherto.training.optimizer import adamw, update

Data = Text | Packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One update, as it happened."""

    step: int
    """Updates so far, this one included."""
    loss: float
    """Nats a token, before the update."""
    lr: float
    """Learning rate of this update."""
    tokens: int
    """Tokens trained on so far."""
    elapsed: float
    """Seconds trained so far, over all resumptions."""
    progress: float
    """How much of the run is done, from 0 to 1."""


def train(
    model: nn.Module,
    data: bytes | Text | Packed,
    config: TrainingConfig,
    directory: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
) -> Iterator[Step]:
    """Train by teacher forcing; gives one `Step` an update, for you to draw.

    Batches depend on the seed and the step alone, so a run of so many `steps` that is killed and
    resumed gives the losses of one that was not, bit for bit.

    Args:
        model: a decoder; it is changed.
        data: bytes to draw windows from, or documents from `pack`.
        config: how long and how fast.
        directory: where checkpoints go: every `save_every_s` seconds, at the end, and when the
            iterator is closed or interrupted.
        resume: first take up the checkpoint in `directory`. Its data and settings must be these,
            but for `steps`, `seconds` and `save_every_s`: a run may be made longer.

    Raises:
        ModelError: when there is nothing to resume or it does not fit, and when the loss is not
            finite.
    """
    source = Text(data) if isinstance(data, bytes) else data
    optimizer = adamw(model, config)
    state = State(training=config, data=source.fingerprint())
    source.batch(0, config.seed, config.batch, config.context)
    if resume:
        state = _take_up(model, optimizer, state, directory)
    return _updates(model, source, config, directory, optimizer, state)


def _updates(
    model: nn.Module,
    data: Data,
    config: TrainingConfig,
    directory: str | os.PathLike[str] | None,
    optimizer: torch.optim.AdamW,
    state: State,
) -> Iterator[Step]:
    saved, saved_at = state, time.monotonic()
    began = time.monotonic() - state.elapsed
    model.train()
    try:
        while (progress := config.progress(state.step, state.elapsed)) < 1:
            lr = config.learning_rate(progress)
            loss, tokens = backward(model, data, config, state.step)
            with held_interrupts():
                update(model, optimizer, lr, config.clip)
                elapsed = time.monotonic() - began
                state = replace(
                    state, step=state.step + 1, tokens=state.tokens + tokens, elapsed=elapsed
                )
            progress = config.progress(state.step, elapsed)
            yield Step(
                step=state.step,
                loss=loss,
                lr=lr,
                tokens=state.tokens,
                elapsed=elapsed,
                progress=progress,
            )
            if directory and time.monotonic() - saved_at >= config.save_every_s:
                save(directory, model, state, optimizer)
                saved, saved_at = state, time.monotonic()
    finally:
        if directory and state is not saved:
            with held_interrupts():
                save(directory, model, state, optimizer)


def backward(model: nn.Module, data: Data, config: TrainingConfig, step: int) -> tuple[float, int]:
    """Gradients of one update's batches, in `parameter.grad`; their mean loss and token count."""
    model.zero_grad(set_to_none=True)
    total, tokens = 0.0, 0
    for part in range(config.accumulate):
        number = step * config.accumulate + part
        batch, documents = data.batch(number, config.seed, config.batch, config.context)
        inputs, labels = teach(batch, documents)
        seen = {} if documents is None else {"documents": documents[:, :-1]}
        loss = cross_entropy(model(inputs, **seen), labels) / config.accumulate
        loss.backward()
        total, tokens = total + loss.item(), tokens + inputs.numel()
    if not torch.isfinite(torch.tensor(total)):
        raise ModelError(
            explain("loss", "must be finite", f"{total} at step {step + 1}", "lower lr or clip")
        )
    return total, tokens


def _take_up(
    model: nn.Module,
    optimizer: torch.optim.AdamW,
    fresh: State,
    directory: str | os.PathLike[str] | None,
) -> State:
    """Load the checkpoint into model and optimizer; its state, going on with the new config."""
    if directory is None:
        raise ModelError(explain("resume", "needs a directory", "None", "give the checkpoint's"))
    kept, state = load(directory)
    _require_same("model", asdict(kept.config), asdict(model.config))
    if state.training is not None:
        _require_same("data", {"fingerprint": state.data}, {"fingerprint": fresh.data})
        free = {"steps": None, "seconds": None, "save_every_s": None}
        _require_same(
            "TrainingConfig", asdict(state.training) | free, asdict(fresh.training) | free
        )
    model.load_state_dict(kept.state_dict())
    load_optimizer(directory, model, optimizer)
    return replace(state, training=fresh.training, data=fresh.data)


def _require_same(what: str, before: dict, now: dict) -> None:
    for name, value in before.items():
        if now[name] != value:
            raise ModelError(
                explain(
                    f"resume: {what}.{name}",
                    f"must be as in the checkpoint, {value!r}",
                    now[name],
                    "use the same, or train into another folder",
                )
            )
