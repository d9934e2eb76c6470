"""What is audited: a model as one function of arrays, and what else it offers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import torch

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Cached generation: the same model, given a sequence piece by piece."""

    start: Callable[[int, str], Any]
    """(batch, kind) -> an empty state, with a cache of this kind."""
    step: Callable[[Any, Array], Array]
    """(state, tokens (batch, n)) -> outputs (batch, n, outputs) of these tokens; moves the state
    on in place."""
    padded: Callable[[Any, Array, Array], Array] | None = None
    """(state, tokens (batch, n), real (batch, n) bool) -> outputs: as the first `step`, of prompts
    with pads; later steps must go on behind them."""
    pads: tuple[str, ...] = ("left", "right")
    """Sides of a prompt on which `padded` takes pads."""
    kinds: tuple[str, ...] = ("default",)
    """Names of the caches offered, e.g. ("growing", "rolling"). The first one runs every probe."""
    lossy: tuple[str, ...] = ()
    """Kinds that round what they keep, e.g. a quantised cache: their outputs may differ."""
    reuse: Callable[[Any], Any] | None = None
    """(state) -> the same cache object, emptied for another request."""
    poison: Callable[[Any, float], None] | None = None
    """(state, value): fill the slots of the caches that hold nothing with this value."""
    generate: Callable[[Array, int], Array] | None = None
    """(tokens (batch, length), n) -> the n tokens (batch, n) that greedy generation adds."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The other input of an encoder-decoder."""

    draw: Callable[[np.random.Generator, int, int], Array]
    """(rng, batch, length) -> a random source."""
    redraw: Callable[[np.random.Generator, Array], Array]
    """(rng, source) -> the same shape, another value at every position."""
    run: Callable[[Array, Array], Array]
    """(source, target) -> outputs (batch, target length, outputs)."""
    encode: Callable[[Array], Array] | None = None
    """(source) -> encoder states (batch, source length, outputs)."""
    padded: Callable[[Array, Array, Array], Array] | None = None
    """(source, real (batch, source length) bool, target) -> outputs."""
    kind: Literal["ids", "floats"] = "ids"
    """What a source position holds."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model as the audit sees it. `adapt` makes one of most models; fill it in for the others.

    A function that raises is reported, not passed on. `run` must repeat: the same input gives the
    same bits (seed any dropout inside it), else the audit can say less.
    """

    name: str
    """What the report calls it."""
    run: Callable[[Array], Array]
    """(batch, length) ids or (batch, length, width) floats -> (batch, length, outputs) float32 or
    float64; output position i belongs to input position i."""
    draw: Callable[[np.random.Generator, int, int], Array]
    """(rng, batch, length) -> a random input."""
    redraw: Callable[[np.random.Generator, Array], Array]
    """(rng, input) -> the same shape, another value at every position."""
    kind: Literal["ids", "floats"]
    """What an input position holds."""
    code: str = "adapt(model)"
    """Python that makes this subject again, for reproducers; `model` is the caller's."""
    module: "torch.nn.Module | None" = None
    """What runs inside `run`; hooks are put on it to name the module at fault."""
    graph: "Callable[[torch.Tensor], torch.Tensor] | None" = None
    """As `run`, on tensors and keeping the graph, for gradients."""
    rebuild: "Callable[[torch.nn.Module], Subject] | None" = None
    """The same subject around another module: a float64 copy, a copy in training mode."""
    variants: Mapping[str, Callable[[], "Subject"]] = field(default_factory=dict)
    """Other ways to run the same weights, by name (an attention backend, returned attention maps,
    an export): each must obey the same mask and give the same outputs."""
    sizes: tuple[int, ...] = ()
    """Windows, chunks, cache and tile sizes of the model: lengths are chosen around them."""
    min_length: int = 1
    """Shortest input that it takes."""
    max_length: int | None = None
    """Longest input that it takes; None = no limit known."""
    depth: int | None = None
    """Layers through which the declared mask composes; None = not known."""
    depth_sure: bool = True
    """Whether every one of these layers carries influence; False for a count by names."""
    stages: Stages | None = None
    """Cached generation."""
    padded: Callable[[Array, Array], Array] | None = None
    """(tokens, real (batch, length) bool) -> outputs; outputs at pads are ignored."""
    packed: Callable[[Array, Sequence[Sequence[int]]], Array] | None = None
    """(tokens (batch, length), lengths of the documents of each row) -> outputs."""
    packed_masked: Callable[[Array, Sequence[Sequence[int]]], Array] | None = None
    """As `packed`, the model being given a padding mask of ones as well, where it takes one."""
    loss: Callable[[Array, Array], Array | float] | None = None
    """(tokens, labels (batch, length), -100 = ignored) -> the mean loss, or one a row. Labels are
    aligned with tokens: labels[i] belongs to the token at i."""
    shift: int = 1
    """Output i should be scored against labels[i + shift]: 1 if the model shifts, 0 if its caller
    does."""
    labelled: Callable[[Array, Array], Array] | None = None
    """(tokens, labels) -> outputs of a forward that is given the labels too."""
    source: Source | None = None
    """The encoder's input of an encoder-decoder; `run` then takes the target alone."""
