"""A torch module as a Subject: its calls, its copies, its sizes and its cache."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hitherto.audit.adapt import draws, find_axes, first_output, moved, output_axis, require_inputs
from hitherto.audit.guess import ATTENTION
from hitherto.audit.subject import Array, Stages, Subject

SIZES = re.compile(
    r"window|chunk|block|segment|stride|span|kernel|sink|capacity|top_?k|lookahead|tile|page|"
    r"cache_(len|size)|memory",
    re.I,
)
LONGEST = ("max_position_embeddings", "max_length", "n_positions", "max_seq_len", "n_ctx")
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "depth")
VOCAB = ("vocab_size", "vocab", "num_tokens", "n_vocab")

_CALLS = count(1)


@dataclass(frozen=True, kw_only=True)
class Calls:
    """How a module is called."""

    module: nn.Module
    ids: bool
    axis: int = 1
    """Axis of the positions in the input."""
    output_axis: int = 1
    """The same in the output."""
    evaluates: bool = True
    """Whether eval mode is set during a call; else the module runs as it is."""

    def raw(self, x: Tensor) -> Any:
        """Call the module.

        In training, dropout draws the same numbers at every call; in eval mode it would draw
        others, so that what is random there shows.
        """
        trains = self.module.training and not self.evaluates
        with torch.random.fork_rng(devices=[]), eval_mode(self.module, self.evaluates):
            torch.default_generator.manual_seed(0 if trains else next(_CALLS))
            return self.module(x)

    def tensor(self, x: Array) -> Tensor:
        """Return an input as the module takes it."""
        like = next(self.module.parameters(), None)
        device = None if like is None else like.device
        if self.ids:
            return torch.as_tensor(moved(x, self.axis), dtype=torch.int64, device=device)
        kinds = [p.dtype for p in self.module.parameters() if p.dtype.is_floating_point]
        kind = kinds[0] if kinds else torch.get_default_dtype()
        return torch.as_tensor(moved(x, self.axis), dtype=kind, device=device)

    def graph(self, x: Tensor) -> Tensor:
        """(batch, length, ...) -> (batch, length, outputs), keeping the graph."""
        batch, length = x.shape[:2]
        out = first_output(self.raw(x if self.axis == 1 else x.movedim(1, self.axis)), length)
        where = output_axis(tuple(out.shape), batch, length, self.output_axis)
        return out.movedim(where, 1) if out.ndim > 1 else out[None]

    def run(self, x: Array) -> Array:
        """The same on numpy arrays, without a graph."""
        with torch.no_grad():
            out = self.graph(self.tensor(x).movedim(self.axis, 1))
        return numpy_of(out)


def torch_subject(
    module: nn.Module,
    vocab: int | None,
    width: int | None,
    time_axis: int | None,
    stages: Stages | Callable[[nn.Module], Stages] | None,
    name: str | None,
) -> Subject:
    """Return a module as a Subject; it runs in eval mode, with dropout seeded."""
    vocab = _vocab(module) if vocab is None and width is None else vocab
    require_inputs(vocab, width)
    calls = Calls(module=module, ids=vocab is not None)
    draw, redraw = draws(vocab, width)
    with torch.no_grad():
        axis, out_axis = find_axes(
            lambda x: calls.raw(replace(calls, axis=1).tensor(x)), draw, time_axis, calls.ids
        )
    subject = Subject(
        name=name or type(module).__name__, run=calls.run, draw=draw, redraw=redraw,
        kind="ids" if calls.ids else "floats", sizes=sizes_of(module),
        max_length=_first(module, LONGEST), depth=depth_of(module), depth_sure=False,
    )  # fmt: skip
    subject = _around(subject, replace(calls, axis=axis, output_axis=out_axis), stages)
    return replace(subject, stages=stages) if isinstance(stages, Stages) else subject


def _around(subject: Subject, calls: Calls, stages: Any) -> Subject:
    """The subject around a module: itself, or a copy in another mode.

    Stages that were given ready-made belong to one module: its copies have none.
    """
    parameters = inspect.signature(calls.module.forward).parameters
    cached = calls.ids and "cache" in parameters and callable(getattr(calls.module, "cache", None))
    if stages is None:
        offered = cached_stages(calls) if cached else None
    else:
        offered = None if isinstance(stages, Stages) else stages(calls.module)
    return replace(
        subject,
        run=calls.run,
        graph=calls.graph,
        module=calls.module,
        rebuild=lambda copy: _around(subject, replace(calls, module=copy, evaluates=False), stages),
        stages=offered,
        **(beside_documents(calls) if cached and "documents" in parameters else {}),
    )


def cached_stages(calls: Calls) -> Stages:
    """Stages of a module with `cache(rolling=...)` and `forward(tokens, cache=...)`."""
    empty: Any = calls.module.cache
    rolling = "rolling" in inspect.signature(empty).parameters

    def start(batch: int, kind: str) -> Any:
        return empty(rolling=kind == "rolling") if rolling else empty()

    def step(state: Any, tokens: Array) -> Array:
        with torch.no_grad(), eval_mode(calls.module, calls.evaluates):
            return numpy_of(calls.module(calls.tensor(tokens), cache=state))

    def reuse(state: Any) -> Any:
        for layer in state:
            layer.truncate(0)
        return state

    emptied = all(hasattr(layer, "truncate") for layer in empty())
    kinds = ("growing", "rolling") if rolling else ("default",)
    return Stages(start=start, step=step, kinds=kinds, reuse=reuse if emptied else None)


def beside_documents(calls: Calls) -> dict[str, Callable]:
    """`packed` and `padded` of a module with `forward(tokens, documents=...)`; -1 is a pad."""

    def run(tokens: Array, ids: Array) -> Array:
        with torch.no_grad(), eval_mode(calls.module, calls.evaluates):
            return numpy_of(calls.module(calls.tensor(tokens), documents=torch.as_tensor(ids)))

    def packed(tokens: Array, lengths: Sequence[Sequence[int]]) -> Array:
        return run(tokens, np.stack([np.repeat(np.arange(len(own)), own) for own in lengths]))

    def padded(tokens: Array, real: Array) -> Array:
        return run(tokens, np.where(real, 0, -1))

    return {"packed": packed, "padded": padded}


@contextmanager
def eval_mode(module: nn.Module, evaluates: bool = True) -> Iterator[None]:
    """Eval mode for a while; every submodule gets back the mode it had."""
    trained = [m for m in module.modules() if m.training] if evaluates else []
    for m in trained:
        m.training = False
    try:
        yield
    finally:
        for m in trained:
            m.training = True


def numpy_of(tensor: Tensor) -> Array:
    """Return a tensor as numpy; 16-bit floats become float32, which holds all their values."""
    tensor = tensor.detach().cpu()
    narrow = tensor.dtype in (torch.bfloat16, torch.float16)
    return (tensor.float() if narrow else tensor).numpy()


def attention_modules(module: nn.Module) -> dict[str, nn.Module]:
    """Return the innermost modules whose class is called an attention, by path."""
    found = {
        path: m for path, m in module.named_modules()
        if ATTENTION.search(type(m).__name__) and "Transformer" not in type(m).__name__
    }  # fmt: skip
    return {
        path: m for path, m in found.items()
        if not any(other.startswith(f"{path}." if path else "") for other in found if other != path)
    }  # fmt: skip


def depth_of(module: nn.Module) -> int | None:
    """Return the number of layers: of attention modules, or as the config says; None = unknown."""
    return len(attention_modules(module)) or _first(module, LAYERS)


def sizes_of(module: nn.Module) -> tuple[int, ...]:
    """Return windows, chunks, kernels and the like from the config and all modules' settings."""
    found = set()
    for holder in (getattr(module, "config", None), *module.modules()):
        for name, value in _settings(holder):
            if SIZES.search(name):
                values = value if isinstance(value, (tuple, list)) else (value,)
                found |= {int(v) for v in values if type(v) is int and 1 < v}
    return tuple(sorted(found))


def _settings(holder: Any) -> list[tuple[str, Any]]:
    if holder is None:
        return []
    slots = [name for kind in type(holder).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [*getattr(holder, "__dict__", ()), *slots]
    return [(n, getattr(holder, n, None)) for n in names if not n.startswith("_")]


def _first(module: nn.Module, names: tuple[str, ...]) -> int | None:
    for holder in (getattr(module, "config", None), module):
        for name in names:
            value = getattr(holder, name, None)
            if type(value) is int and value > 0:
                return value
    return None


def _vocab(module: nn.Module) -> int | None:
    """Return the vocabulary by the config, else by the first embedding."""
    tables = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)]
    return _first(module, VOCAB) or (tables[0] if tables else None)
