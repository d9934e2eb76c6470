"""Cached generation of a transformers model, with every cache that it offers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hitherto.audit.subject import Stages
from hitherto.audit.torch_model import numpy_of
from hitherto.integrations.calls import Array, Calls

STATIC = 160
"""Positions of a static cache."""


@dataclass
class State:
    """A cache on its way through a sequence."""

    kind: str
    cache: Any
    seen: int = 0
    more: dict[str, Any] | None = None
    real: Array | None = None
    """bool (batch, seen), where pads came in."""


def stages(calls: Calls, source: Array | None = None) -> Stages | None:
    """Return how to run a model with a cache; None where it has none.

    Kinds: "dynamic", the cache that the model makes for itself, and "static", where the model says
    that it can.

    Args:
        calls: the model.
        source: ids (1, length) for the encoder of an encoder-decoder.
    """
    name = calls.cache_name
    if name is None:
        return None
    kinds = ("dynamic", "static") if _takes_static(calls.model) and source is None else ("dynamic",)

    def start(batch: int, kind: str) -> State:
        made = _static(calls.model) if kind == "static" else None
        return State(kind=kind, cache=made, more=_encoded(calls, source, batch))

    def step(state: State, tokens: Array) -> Array:
        key = "input_ids" if source is None else "decoder_input_ids"
        given = {key: calls.ids(tokens), **calls.always, **(state.more or {})}
        given |= {"use_cache": True} if "use_cache" in calls.accepts else {}
        if state.cache is not None:
            given[name] = state.cache
        if state.real is not None:
            missing = state.seen + tokens.shape[1] - state.real.shape[1]
            state.real = np.pad(state.real, ((0, 0), (0, missing)), constant_values=True)
            if not state.seen or not calls.keeps_states:
                given |= calls.beside_pads(state.real, tokens.shape[1])
        with torch.no_grad():
            calls.model.eval()
            out = calls.model(**given)
        state.cache, state.seen = getattr(out, name), state.seen + tokens.shape[1]
        if state.cache is None:
            raise ValueError(f"the model returned no {name}")
        return numpy_of(out.logits)

    def padded(state: State, tokens: Array, real: Array) -> Array:
        state.real = real
        return step(state, tokens)

    plain = source is None
    masked = plain and "attention_mask" in calls.accepts
    return Stages(
        start=start, step=step, kinds=kinds, poison=_poison, reuse=_emptied,
        padded=padded if masked else None, pads=("left",),
        generate=calls.generate if plain and hasattr(calls.model, "generate") else None,
    )  # fmt: skip


def _takes_static(model: Any) -> bool:
    return bool(getattr(model, "_can_compile_fullgraph", False))


def _static(model: Any) -> Any:
    from transformers import StaticCache

    return StaticCache(config=model.config, max_cache_len=STATIC)


def _encoded(calls: Calls, source: Array | None, batch: int) -> dict[str, Any]:
    """Run the encoder once, for all steps."""
    if source is None:
        return {}
    with torch.no_grad():
        ids = calls.ids(np.repeat(source, batch, axis=0))
        return {"encoder_outputs": calls.model.get_encoder()(input_ids=ids, return_dict=True)}


def _emptied(state: State) -> State:
    """Empty a cache for another request; one that grows is made anew, as the library does."""
    if state.kind == "static":
        state.cache.reset()
        return State(kind=state.kind, cache=state.cache, more=state.more)
    return State(kind=state.kind, cache=None, more=state.more)


def _poison(state: State, value: float) -> None:
    """Fill the slots of a static cache that hold nothing yet."""
    for layer in getattr(state.cache, "layers", ()) if state.kind == "static" else ():
        for part in (getattr(layer, "keys", None), getattr(layer, "values", None)):
            if torch.is_tensor(part) and part.ndim == 4 and part.shape[2] > state.seen:
                part[:, :, state.seen :] = value
