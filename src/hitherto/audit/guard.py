"""A watch inside a training loop: now and then, does the past move with the future?"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from hitherto.audit.locate import first_moved, record
from hitherto.errors import ModelError, explain


class LeakError(ModelError):
    """The model in training sees its future."""


class LeakWarning(UserWarning):
    """The same, as a warning."""


class Guard:
    """Check every so many training steps that no layer sees its future.

    Meaning: the first input of the batch is run twice more by itself, in the mode the model is in;
    the second time all positions from a random cut on are replaced. Every module must give the
    same bits before the cut. Random state, buffers and gradients are left as they were.

        with Guard(model, every=100):
            train(model)

    Args:
        model: a causal torch module; its first argument, or `input_ids`, is (batch, positions) ids
            or (batch, positions, width) floats.
        every: checks once in so many forwards with gradients; >= 1. The first is checked too.
        action: "raise" a LeakError, or "warn".
        seed: of cuts and replacements.

    Cost: two forwards of one row a check: under 2 % of a step of batch 2 or more at every=100.
    """

    def __init__(
        self, model: Any, every: int = 100, *, action: Literal["raise", "warn"] = "raise",
        seed: int = 0,
    ) -> None:  # fmt: skip
        if every < 1 or action not in ("raise", "warn"):
            raise ModelError(
                explain("Guard(every, action)", 'must be >= 1, and "raise" or "warn"',
                        (every, action), "e.g. Guard(model, every=100)")
            )  # fmt: skip
        self.model, self.every, self.action = model, every, action
        self.checks = 0
        """Checks made so far."""
        self.skipped = ""
        """Why the last check could not be made, if so."""
        self._rng, self._count, self._busy = np.random.default_rng(seed), 0, False
        self._hook = model.register_forward_hook(self._after, with_kwargs=True)

    def close(self) -> None:
        """Stop watching."""
        self._hook.remove()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after(self, module: Any, args: tuple, kwargs: dict, output: Any) -> None:
        import torch

        if self._busy or not torch.is_grad_enabled():
            return
        self._count += 1
        if (self._count - 1) % self.every:
            return
        self._busy = True
        try:
            found = self._check(args, kwargs)
        finally:
            self._busy = False
        if found:
            self._tell(found)

    def _check(self, args: tuple, kwargs: dict) -> str | None:
        """Run one row with two futures; return the module at fault."""
        self.skipped = ""
        first = args[0] if args else kwargs.get("input_ids", kwargs.get("x"))
        if first is None or not hasattr(first, "detach") or first.ndim < 2 or first.shape[1] < 2:
            self.skipped = "the first argument has no positions"
            return None
        row = first[:1].detach()
        cut = int(self._rng.integers(1, row.shape[1]))
        other = row.clone()
        other[:, cut:] = self._replaced(first.detach(), row, cut)
        still = np.arange(row.shape[1])[None] < cut
        runs = []
        for x in (row, other):
            with _undone(self.model):
                runs.append(record(self.model, lambda x=x: self._run(x, args, kwargs, len(first))))
        self.checks += 1
        before, after = runs
        return first_moved(before, after, still)

    def _replaced(self, batch: Any, row: Any, cut: int) -> Any:
        """Another future: ids turned within those seen in the batch, floats mirrored and moved."""
        import torch

        if row.is_floating_point():
            return 1 - row[:, cut:].flip(1)
        low, high = int(batch.min()), int(batch.max())
        steps = self._rng.integers(1, max(high - low, 1) + 1, tuple(row[:, cut:].shape))
        moved = row[:, cut:] - low + torch.as_tensor(steps, device=row.device, dtype=row.dtype)
        return low + moved % (high - low + 1)

    def _run(self, x: Any, args: tuple, kwargs: dict, batch: int) -> Any:
        """Call the model on one row, with the first row of every other tensor argument."""

        def one(value: Any) -> Any:
            whole = hasattr(value, "detach") and value.ndim and value.shape[0] == batch
            return value[:1] if whole else value

        if args:
            return self.model(x, *map(one, args[1:]), **{n: one(v) for n, v in kwargs.items()})
        name = "input_ids" if "input_ids" in kwargs else "x"
        return self.model(**{n: x if n == name else one(v) for n, v in kwargs.items()})

    def _tell(self, module: str) -> None:
        message = explain(
            "model (seen by Guard)", "must give the same before a cut, whatever follows it,"
            " in every module",
            f"{module} moved with the future at forward {self._count}",
            "run hitherto.audit on the model to see the whole map",
        )  # fmt: skip
        if self.action == "raise":
            raise LeakError(message)
        warnings.warn(message, LeakWarning, stacklevel=2)


@contextmanager
def _undone(model: Any) -> Iterator[None]:
    """Run without a graph, on copies of the buffers, with the same random numbers."""
    import torch

    held = [(m._buffers, dict(m._buffers)) for m in model.modules() if m._buffers]
    devices = [p.device.index for p in model.parameters() if p.device.type == "cuda"][:1]
    for buffers, own in held:
        buffers.update({name: b if b is None else b.clone() for name, b in own.items()})
    try:
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.default_generator.manual_seed(0)
            yield
    finally:
        for buffers, own in held:
            buffers.update(own)
