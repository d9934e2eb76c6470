"""Change what goes in or out of one module inside the running model, and read what comes out.

A hook changes the module's input, another reads its output and ends the forward there. So masks,
caches and positions are what the model itself passes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hitherto.audit.case import Case
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import tensors
from hitherto.audit.subject import Array


class _Read(Exception):
    """The output wanted has been read; the rest of the forward is not needed."""


def change_rows(keys: Array, seed: int) -> Callable[[Any], Any]:
    """Return what replaces, in row i of a (rows, length, width) tensor, position keys[i]."""

    def change(x: Any) -> Any:
        import torch

        rng = torch.Generator().manual_seed(seed)
        noise = torch.randn(x.shape[2:], generator=rng, dtype=torch.float64).to(x)
        rows, where = torch.arange(len(keys)), torch.as_tensor(keys)
        other = x.clone()
        other[rows, where] += noise * (1 + x.abs().mean())
        return other

    return change


@contextmanager
def changing(root: Any, path: str, count: int, shape: tuple, change: Callable) -> Iterator[None]:
    """Change what the count-th call (from 0) of a module gives, where it has this shape."""
    calls = []

    def after(_: Any, args: tuple, output: Any) -> Any:
        calls.append(path)
        if len(calls) % (count + 1):
            return None
        return changed_in(output, lambda t: change(t) if t.shape == shape else t)

    handle = dict(root.named_modules())[path].register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def changed_in(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested tuples, lists and dicts with every tensor changed."""
    if hasattr(value, "detach"):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(changed_in(part, change) for part in value)
    if isinstance(value, dict):
        return type(value)(**{n: changed_in(p, change) for n, p in value.items()})
    return value


def output_of(case: Case, module: Any, run: Callable, shape: tuple[int, int], change: Any) -> Any:
    """Run up to the end of a module's first call; return its output, (rows, length, width)."""
    read: list[Any] = []

    def before(_: Any, args: tuple, kwargs: dict) -> Any:
        return _replaced(args, kwargs, shape, change) if change else None

    def after(_: Any, args: tuple, output: Any) -> None:
        found = [_placed(t, shape) for t in tensors(output) if t.is_floating_point() and t.ndim > 2]
        read.extend([t for t in found if t is not None][:1])
        raise _Read

    handles = [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after),
    ]
    case.ledger.forwards += 1
    try:
        run()
    except _Read:
        pass
    except Exception as error:
        raise Failed("call fails", f"{type(error).__name__}: {error}") from error
    finally:
        for handle in handles:
            handle.remove()
    if not read:
        raise Failed("call fails", "the module is not reached, or its output has other positions")
    return read[0]


def _placed(tensor: Any, shape: tuple[int, int]) -> Any | None:
    """Return a tensor as (rows, length, ...), or None where it has no such axes in front."""
    if tensor.shape[:2] == shape:
        return tensor
    return tensor.transpose(0, 1) if tensor.shape[:2] == shape[::-1] else None


def _replaced(args: tuple, kwargs: dict, shape: tuple[int, int], change: Callable) -> Any:
    """Return (args, kwargs) with the hidden states changed.

    These are the first float tensor of three axes with these positions, and those shaped like it.
    """
    floats = [t for t in tensors((args, kwargs), 3) if t.is_floating_point() and t.ndim == 3]
    like = next((t.shape for t in floats if _placed(t, shape) is not None), None)
    if like is None or any(t.shape != like and t.shape[-1:] == like[-1:] for t in floats):
        raise ValueError("the module has no input of these positions alone")
    changed: dict[int, Any] = {}

    def one(item: Any) -> Any:
        if item.shape != like or not item.is_floating_point():
            return item
        if id(item) not in changed:
            other = change(_placed(item, shape))
            changed[id(item)] = other if item.shape[:2] == shape else other.transpose(0, 1)
        return changed[id(item)]

    return changed_in(args, one), changed_in(dict(kwargs), one)
