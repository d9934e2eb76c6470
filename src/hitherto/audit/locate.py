"""Name the module at fault: the first that takes the same and gives something else.

"The same" is asked only where nothing may move: before a cut, in another document, at real tokens.
Two runs, hooks on every module, calls in the order in which they end: so a child is named before
its parent, and a parent is named for what its own code does between its children.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from hitherto.audit.case import checked
from hitherto.audit.subject import Array, Subject

MAX_BYTES = 1 << 31
"""Recording stops at so many bytes: later modules are then not told apart."""


@dataclass(frozen=True)
class Call:
    """What went in and out of one call of a module."""

    module: str
    inputs: list
    outputs: list


def locate(
    subject: Subject, base: Array, other: Array, still: Array, tolerance: float = 0.0
) -> str | None:
    """Return "path (Class)" of the first module at fault, or None where hooks do not tell.

    Args:
        subject: with a module inside.
        base: an input (batch, length, ...).
        other: the same shape; changed where it should not matter to `still`.
        still: bool (batch, length): positions whose values must not move inside the model.
        tolerance: largest relative difference that counts as none.

    Cost: two forwards, and memory for what every module takes and gives.
    """
    if subject.module is None:
        return None
    before, after = (
        record(subject.module, lambda z=z: checked(subject.run, z)) for z in (base, other)
    )
    return first_moved(before, after, still, tolerance)


def first_moved(
    before: dict[tuple[str, int], Call], after: dict[tuple[str, int], Call], still: Array,
    tolerance: float = 0.0,
) -> str | None:  # fmt: skip
    """Name the first call whose inputs agree at the still positions, and whose outputs do not."""
    for key, call in before.items():
        if key in after and _at_fault(call, after[key], still, tolerance):
            return call.module
    return None


def first_differing(
    subject: Subject, one: Callable, other: Callable, where: tuple[Array, Array], tolerance: float
) -> str | None:
    """Name the first module that does something else to the same tokens in another setting.

    Args:
        subject: with a module inside.
        one: a run that is right.
        other: a run of the same tokens: piece by piece, beside pads, beside other documents.
        where: bool (batch, length) of each: the positions that are the same tokens.
        tolerance: largest relative difference that counts as none.
    """
    if subject.module is None:
        return None
    before, after = record(subject.module, one), record(subject.module, other)
    for key, call in before.items():
        there = after.get(key)
        if there is None or not all((call.inputs, call.outputs, there.inputs, there.outputs)):
            continue
        pairs = [(call.inputs[0], there.inputs[0]), (call.outputs[0], there.outputs[0])]
        parts = [(kept(a, where[0]), kept(b, where[1])) for a, b in pairs]
        same = [
            _close(a, b, tolerance)
            for a, b in parts
            if a is not None and b is not None and a.shape == b.shape
        ]
        if same == [True, False]:
            return call.module
    return None


def first_stopping(
    before: dict[tuple[str, int], Call], after: dict[tuple[str, int], Call],
    shape: tuple[int, int], row: int, query: int,
) -> str | None:  # fmt: skip
    """Name the first call that takes something else in a row, and gives the same at a query.

    What it takes for the query itself is the same; what differs has other positions.
    """
    still = np.zeros(shape, bool)
    still[row, query] = True
    for key, call in before.items():
        other = after.get(key)
        if other is None or len(call.outputs) != len(other.outputs) or not call.outputs:
            continue
        pairs = list(zip(call.inputs, other.inputs, strict=False))
        elsewhere = [(a, b) for a, b in pairs if kept(a, still) is None]
        if all(a.shape == b.shape and np.array_equal(_array(a), _array(b)) for a, b in elsewhere):
            continue
        both = pairs + list(zip(call.outputs, other.outputs, strict=True))
        parts = [(kept(a, still), kept(b, still)) for a, b in both]
        found = [np.array_equal(a, b) for a, b in parts if a is not None and b is not None]
        if all(found) and any(kept(a, still) is not None for a in call.outputs):
            return call.module
    return None


def module_of(subject: Subject, name: str) -> Any:
    """Return the module of a name "path (Class)"."""
    assert subject.module is not None
    return subject.module.get_submodule(name.split("(")[0].strip())


def record(root: Any, run: Callable[[], Any]) -> dict[tuple[str, int], Call]:
    """Run once; return every call by (path, how often before), in the order of their ends."""
    calls: dict[tuple[str, int], Call] = {}
    open_calls: list[list] = []
    counts: dict[str, int] = {}
    held = 0

    def before(module, args, kwargs):
        nonlocal held
        inputs = [] if held > MAX_BYTES else [t.detach().clone() for t in tensors((args, kwargs))]
        held += sum(t.nbytes for t in inputs)
        open_calls.append(inputs)

    def after(path):
        def hook(module, args, output):
            nonlocal held
            inputs = open_calls.pop()
            outputs = [] if held > MAX_BYTES else [t.detach().clone() for t in tensors(output)]
            held += sum(t.nbytes for t in outputs)
            name = f"{path} ({type(module).__name__})".strip()
            calls[path, counts.setdefault(path, 0)] = Call(name, inputs, outputs)
            counts[path] += 1

        return hook

    handles = []
    for path, module in root.named_modules():
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after(path)))
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return calls


def tensors(value: Any, depth: int = 6) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists, dicts and dataclasses; no other objects."""
    if hasattr(value, "detach"):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors(item, depth - 1)
    elif depth and isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item, depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from tensors(getattr(value, item.name, None), depth - 1)


def kept(tensor: Any, still: Array) -> Array | None:
    """Return the part of a tensor at the still positions, or None if it has no such axes.

    Axes of size (batch, length) in front are preferred, then a flattened batch * length, then
    (length, batch), then one axis of that length while there is one row, else one of that batch.
    """
    batch, length = still.shape
    array = _array(tensor)
    shape = array.shape
    if shape[:2] == (batch, length):
        return array[still]
    if shape[:1] == (batch * length,):
        return array[still.ravel()]
    if shape[:2] == (length, batch):
        return array[still.T]
    if batch == 1 and length in shape:
        return np.compress(still[0], array, axis=shape.index(length))
    if shape[:1] == (batch,) and batch > 1:
        axes = [axis for axis in range(1, array.ndim) if shape[axis] == length]
        if axes:
            return np.moveaxis(array, axes[0], 1)[still]
        return array[still.all(1)] if still.all(1).any() else None
    return None


def _array(tensor: Any) -> Array:
    """Return a tensor as numpy; floats as float64, which holds them all."""
    return (tensor.double() if tensor.is_floating_point() else tensor).cpu().numpy()


def _at_fault(one: Call, two: Call, still: Array, tolerance: float) -> bool:
    if len(one.inputs) != len(two.inputs) or len(one.outputs) != len(two.outputs):
        return False
    pairs = list(zip(one.inputs, two.inputs, strict=True))
    if not pairs or not all(_agree(a, b, still, tolerance, whole=True) for a, b in pairs):
        return False
    outputs = zip(one.outputs, two.outputs, strict=True)
    return not all(_agree(a, b, still, tolerance, whole=False) for a, b in outputs)


def _agree(one: Any, two: Any, still: Array, tolerance: float, whole: bool) -> bool:
    """Whether two tensors agree at the still positions; without positions, as a `whole` or not."""
    if one.shape != two.shape:
        return not whole
    a, b = kept(one, still), kept(two, still)
    if a is None or b is None:
        a, b = (_array(one), _array(two)) if whole else (np.zeros(0), np.zeros(0))
    return _close(a, b, tolerance)


def _close(a: Array, b: Array, tolerance: float) -> bool:
    """Whether two arrays have the same bits, or differ within a tolerance of their scale."""
    if not a.size or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return True
    if a.dtype.kind != "f" or not tolerance:
        return False
    with np.errstate(invalid="ignore"):
        apart = np.where(a == b, 0, np.abs(a - b))
        unit = np.abs(a[np.isfinite(a)]).max(initial=0) or 1.0
    return float(np.nanmax(apart)) <= tolerance * unit
