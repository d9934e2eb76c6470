"""Any model -> Subject: torch modules here and in `torch_model`, plain functions over arrays."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hitherto.audit.subject import Array, Stages, Subject
from hitherto.errors import ModelError, explain


class CallFails(ModelError):
    """No way to call the model gave an output for every position."""


TRY_BATCH, TRY_LENGTH = 2, 11
"""Shape of the first call: no usual width is 11."""


def adapt(
    model: Any,
    *,
    vocab: int | None = None,
    width: int | None = None,
    example: Any = None,
    time_axis: int | None = None,
    stages: Stages | Callable[[Any], Stages] | None = None,
    name: str | None = None,
) -> Subject:
    """Return a model as the audit sees it.

    Args:
        model: a torch module, a function of one numpy array, or a Subject.
        vocab: token ids are drawn from 0 .. vocab - 1; found in a module's config or embedding.
        width: floats of an input position, for models of floats.
        example: an input as the model takes it, instead of vocab and width: ids (batch, length), or
            floats with any order of axes.
        time_axis: axis of the positions in inputs and outputs; found by trying unless given.
        stages: how to run it with a cache; as a function of the module, copies of the model (in
            float64, say) run with caches too.
        name: what the report calls it.

    Raises:
        ModelError: when nothing says what the inputs are (CallFails: when no call works).
    """
    if isinstance(model, Subject):
        return model if stages is None else replace(model, stages=_of(stages, model.module))
    code = code_of(vocab=vocab, width=width, example=example, time_axis=time_axis, stages=stages)
    if example is not None:
        vocab, width = _of_example(example, vocab, width, time_axis)
    if hasattr(model, "named_modules"):
        from hitherto.audit.torch_model import torch_subject

        subject = torch_subject(model, vocab, width, time_axis, stages, name)
        return replace(subject, code=code)
    if not callable(model):
        raise ModelError(
            explain("audit(model)", "must be a torch module, a function of one array, or a Subject",
                    type(model).__name__, "wrap the call: audit(lambda ids: session.run(ids))")
        )  # fmt: skip
    require_inputs(vocab, width)
    name = name or str(getattr(model, "__name__", type(model).__name__))
    draw, redraw = draws(vocab, width)
    axis, output_axis = find_axes(model, draw, time_axis, vocab is not None)

    def run(x: Array) -> Array:
        return aligned(model(moved(x, axis)), x.shape[:2], output_axis)

    kind = "ids" if vocab is not None else "floats"
    stages = _of(stages, model)
    return Subject(
        name=name, run=run, draw=draw, redraw=redraw, kind=kind, code=code, stages=stages, depth=1
    )


def _of(stages: Stages | Callable[[Any], Stages] | None, model: Any) -> Stages | None:
    return stages if stages is None or isinstance(stages, Stages) else stages(model)


def code_of(**given: Any) -> str:
    """Spell a call of `adapt`; `example` and `stages` keep the caller's names."""
    said = {name: name if name in ("example", "stages") else repr(v) for name, v in given.items()}
    told = [f"{name}={text}" for name, text in said.items() if given[name] is not None]
    return f"adapt({', '.join(['model', *told])})"


def draws(vocab: int | None, width: int | None) -> tuple[Callable, Callable]:
    """Return (draw, redraw) for ids below `vocab`, or for floats of this width."""
    if vocab is not None:
        return (
            lambda rng, batch, length: rng.integers(0, vocab, (batch, length)),
            lambda rng, x: (x + rng.integers(1, vocab, x.shape)) % vocab,
        )
    return (
        lambda rng, batch, length: rng.standard_normal((batch, length, width)),
        lambda rng, x: (
            x + np.where(rng.random(x.shape) < 0.5, -1.0, 1.0) * (1 + rng.random(x.shape))
        ),
    )


def find_axes(
    function: Callable, draw: Callable, time_axis: int | None, ids: bool
) -> tuple[int, int | None]:
    """Try the orders of axes until a call gives outputs with a time axis.

    Returns:
        (axis of the positions in the input, in the output); the batch axis is 0, or 1 where the
        positions come first.

    Raises:
        CallFails: with what the first try gave.
    """
    x = draw(np.random.default_rng(0), TRY_BATCH, TRY_LENGTH)
    tries, failures = [time_axis] if time_axis is not None else [1] if ids else [1, 2], []
    for axis in tries:
        for rows in (TRY_BATCH, 1):
            for length in (TRY_LENGTH, 32, 128):
                x = draw(np.random.default_rng(0), rows, length)
                try:
                    out = first_output(function(moved(x, axis)), length)
                    return axis, output_axis(np.shape(out), rows, length, axis)
                except Exception as error:
                    failures.append(f"axis {axis}: {type(error).__name__}: {error}")
    raise CallFails(
        explain("audit(model)", "must take (batch, positions) ids or (batch, positions, width) "
                "floats and return an output for every position", failures[0],
                "pass example= and time_axis=, or a Subject")
    )  # fmt: skip


def moved(x: Array, axis: int) -> Array:
    """Return (batch, length, ...) with the positions on `axis` instead."""
    return x if axis == 1 else np.ascontiguousarray(np.moveaxis(x, 1, axis))


def output_axis(shape: tuple[int, ...], batch: int, length: int, preferred: int) -> int:
    """Find the axis of the positions in an output: where the input has it, else by its size."""
    axes = [axis for axis, size in enumerate(shape) if size == length]
    if not axes:
        raise ValueError(f"no axis of the output, shape {tuple(shape)}, has {length} positions")
    return preferred if preferred in axes else axes[0]


def first_output(output: Any, length: int) -> Any:
    """Pick the outputs out of a tuple, dict or object.

    "logits" and the like first, else the first array with an axis of the positions.
    """
    for name in ("logits", "last_hidden_state", "output", "outputs"):
        found = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if found is not None and hasattr(found, "shape"):
            return found
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, (tuple, list)) and not isinstance(output, np.ndarray):
        for item in output:
            if length in np.shape(item):
                return item
        raise ValueError(f"no output of {len(output)} has an axis of {length} positions")
    return output


def aligned(output: Any, shape: tuple[int, int], axis: int | None) -> Array:
    """Return an output as numpy (batch, length, ...)."""
    out = np.asarray(first_output(output, shape[1]))
    where = output_axis(out.shape, *shape, 1 if axis is None else axis)
    return np.moveaxis(out, where, 0 if out.ndim == 1 else 1)[None if out.ndim == 1 else ...]


def _of_example(
    example: Any, vocab: int | None, width: int | None, time_axis: int | None
) -> tuple[int | None, int | None]:
    """Return (vocab, width) of an example input."""
    array = np.asarray(example.detach().cpu() if hasattr(example, "detach") else example)
    if array.dtype.kind in "iu":
        return vocab or int(array.max()) + 1, None
    if array.ndim < 2:
        raise ModelError(
            explain("audit(example)", "must have a batch axis and an axis of positions",
                    f"shape {array.shape}", "add a batch axis in front")
        )  # fmt: skip
    if array.ndim == 2:
        return None, width or 0
    axes = {0, 1, 2} - {1 if time_axis is None else time_axis, 1 if time_axis == 0 else 0}
    return None, width or array.shape[max(axes)]


def require_inputs(vocab: int | None, width: int | None) -> None:
    """Raise unless something says what the inputs are."""
    if vocab is None and width is None:
        raise ModelError(
            explain("audit(vocab, width, example)", "one of them must say what the inputs are",
                    "none", "pass vocab=256 for token ids, or width=8 for floats")
        )  # fmt: skip
