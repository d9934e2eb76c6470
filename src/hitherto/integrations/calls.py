"""How a transformers model is called: its own names for the cache, masks and positions."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitherto.audit.torch_model import eval_mode, numpy_of

Array = np.ndarray
CACHES = ("cache", "past_key_values", "cache_params", "mems", "past_buckets_states", "state")
"""What releases and architectures call the cache, in a forward and in its output."""


@dataclass(frozen=True, kw_only=True)
class Calls:
    """A model, and what every call of it gets."""

    model: Any
    evaluates: bool = True
    """Whether eval mode is set during a call; else the model runs as it is."""
    always: dict[str, Any] = field(default_factory=dict)
    """Arguments of every call, e.g. `output_attentions`."""

    @property
    def accepts(self) -> set[str]:
        """Names of the forward's arguments."""
        return set(inspect.signature(self.model.forward).parameters)

    @property
    def cache_name(self) -> str | None:
        """What this forward calls its cache."""
        return next((name for name in CACHES if name in self.accepts), None)

    @property
    def keeps_states(self) -> bool:
        """Whether it caches states alone, no keys: its steps then take no mask of what came before.

        So it is where the library calls a model stateful that takes no positions, and in XLNet.
        """
        stateful = getattr(self.model, "_is_stateful", False)
        return self.cache_name == "mems" or (stateful and "position_ids" not in self.accepts)

    @property
    def two_sided(self) -> bool:
        """Whether it has an encoder and a decoder."""
        return "decoder_input_ids" in self.accepts

    def output(self, x: Tensor, **more: Any) -> Any:
        """Call the model on ids; in training mode, dropout draws the same numbers every time."""
        given = {"input_ids": x, **self.always, **more}
        if "use_cache" in self.accepts:
            given.setdefault("use_cache", False)
        if self.evaluates:
            with eval_mode(self.model):
                return self.model(**given)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            return self.model(**given)

    def graph(self, x: Tensor) -> Tensor:
        """Return logits (batch, length, vocab), keeping the graph."""
        return self.output(x).logits

    def run(self, x: Array) -> Array:
        """Return logits of a plain forward: no mask, no positions, no cache given."""
        return self.numbers(x)

    def numbers(self, x: Array, **more: Any) -> Array:
        """Return logits as numpy."""
        with torch.no_grad():
            return numpy_of(self.output(self.ids(x), **more).logits)

    def ids(self, x: Array) -> Tensor:
        """Return ids as the model takes them."""
        return torch.as_tensor(np.ascontiguousarray(x), device=self.device)

    @property
    def device(self) -> Any:
        """Where the weights are."""
        return next(self.model.parameters()).device

    def padded(self, tokens: Array, real: Array) -> Array:
        """Run with an attention mask, positions counted from each row's first real token."""
        return self.numbers(tokens, **self.beside_pads(real, tokens.shape[1]))

    def beside_pads(self, real: Array, count: int) -> dict[str, Any]:
        """Return what `generate` passes for the last `count` of these slots.

        A model that takes no positions must derive them.
        """
        mask = self.ids(real.astype(np.int64))
        more: dict[str, Any] = {"attention_mask": mask}
        if "position_ids" in self.accepts:
            places = (mask.cumsum(-1) - 1).clamp(min=0) + self.first_position
            more["position_ids"] = places[:, -count:]
        return more

    @property
    def first_position(self) -> int:
        """Position of a first token: the RoBERTa family counts from behind its padding token."""
        counts = (m for m in self.model.modules() if hasattr(m, _COUNTS))
        return next((m.padding_idx + 1 for m in counts), 0)

    def packed(self, tokens: Array, lengths: Sequence[Sequence[int]]) -> Array:
        """Run documents in each row, told apart by positions that begin again at 0."""
        positions = np.stack([np.concatenate([np.arange(n) for n in own]) for own in lengths])
        return self.numbers(tokens, position_ids=self.ids(positions))

    def loss(self, tokens: Array, labels: Array) -> float:
        """Return the model's own loss; labels[i] belongs to tokens[i]."""
        with torch.no_grad():
            return float(self.output(self.ids(tokens), labels=self.ids(labels)).loss)

    def labelled(self, tokens: Array, labels: Array) -> Array:
        """Return the logits of a forward that is given labels."""
        return self.numbers(tokens, labels=self.ids(labels))

    def generate(self, tokens: Array, count: int) -> Array:
        """Return the tokens that greedy generation adds, not stopping at any."""
        own = self.model.generation_config
        kept = {name: getattr(own, name, None) for name in _STOPS}
        try:
            for name in _STOPS:
                setattr(own, name, None)
            with torch.no_grad(), eval_mode(self.model):
                out = self.model.generate(
                    self.ids(tokens), max_new_tokens=count, do_sample=False, pad_token_id=0,
                    attention_mask=torch.ones_like(self.ids(tokens)), use_cache=True,
                )  # fmt: skip
            return numpy_of(out)[:, tokens.shape[1] :]
        finally:
            for name, value in kept.items():
                setattr(own, name, value)


_COUNTS = "create_position_ids_from_input_ids"
_STOPS = ("eos_token_id", "forced_eos_token_id", "forced_bos_token_id", "max_length")
