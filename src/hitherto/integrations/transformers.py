"""transformers models for the audit: decoder-only and encoder-decoder, with all their modes."""

import copy
import inspect
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from hitherto.audit.subject import Array, Source, Subject
from hitherto.audit.torch_model import numpy_of
from hitherto.integrations.cached import stages
from hitherto.integrations.calls import Calls
from hitherto.mask import Band, Causal, Chunks, Everything, Mask, Window

SOURCE = 11
"""Length of the fixed source that a decoder with an encoder is run on."""
CODE = "from hitherto.integrations.transformers import subject\nsubject(model)"
"""Python that makes a subject of the caller's model."""
_SIZES = re.compile(r"(.*_)?(window|chunk)(_size|_len(gth)?)?|.*sliding_window(_size)?|"
                    r"block_size|index(er)?_(topk|budget)|attention_chunk_size")  # fmt: skip
_KINDS = ("layer_types", "layers_block_type", "attention_layers")
_TOLD = re.compile(
    r"(?:create_causal_mask|mask_function)\((?:[^()]|\([^()]*\))*position_ids"
    r"|mask_kwargs = \{[^}]*position_ids"
)
_LONGEST = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len")


def subject(model: Any, name: str | None = None) -> Subject:
    """Return a transformers language model as the audit sees it.

    Inputs are ids that mean nothing special to the model: no padding, image or end tokens. The
    plain forward gets ids alone, as most callers do.

    Args:
        model: a decoder-only or encoder-decoder model with a language-model head.
        name: what the report calls it; its class unless given.
    """
    calls = Calls(model=model)
    if calls.two_sided:
        return _two_sided(calls, name)
    draw, redraw = _draws(plain_ids(model))
    base = Subject(
        name=name or type(model).__name__, run=calls.run, draw=draw, redraw=redraw, kind="ids",
        sizes=sizes(model.config), depth=len(layer_masks(model.config)) or None,
        max_length=_longest(model.config), code=CODE,
    )  # fmt: skip
    return _around(base, calls)


def _around(base: Subject, calls: Calls) -> Subject:
    """The subject around a model: itself, or a copy in another mode."""
    accepts = calls.accepts
    return replace(
        base, run=calls.run, graph=calls.graph, module=calls.model,
        rebuild=lambda other: _around(
            base, replace(calls, model=_runnable(other), evaluates=False)
        ),
        variants=_variants(base, calls) if calls.evaluates else {},
        stages=stages(calls),
        padded=calls.padded if "attention_mask" in accepts else None,
        packed=calls.packed if packs(calls.model) else None,
        loss=calls.loss if "labels" in accepts else None,
        labelled=calls.labelled if "labels" in accepts else None,
    )  # fmt: skip


def _runnable(model: Any) -> Any:
    """Let experts run one by one in a float64 copy: torch groups them in 32 and 16 bits only."""
    if "float64" in str(next(model.parameters()).dtype) and (
        hasattr(model, "set_experts_implementation")
    ):
        model.set_experts_implementation("eager")
    return model


def _variants(base: Subject, calls: Calls) -> dict[str, Any]:
    """Other attention backends, and returned attention maps."""
    found = {}
    if getattr(calls.model, "_supports_sdpa", False):

        def eager() -> Subject:
            other = copy.deepcopy(calls.model)
            other.set_attn_implementation("eager")
            return _around(base, replace(calls, model=other))

        def maps() -> Subject:
            other = eager().module
            return _around(base, replace(calls, model=other, always={"output_attentions": True}))

        found = {"eager": eager, "output_attentions": maps}
    return found


def packs(model: Any) -> bool:
    """Whether documents packed in one row are told apart by positions that restart.

    The library does so where a model hands its positions on to `create_causal_mask`; other models
    promise nothing, and mix documents.
    """
    own = sys.modules.get(type(model).__module__)
    if "position_ids" not in Calls(model=model).accepts or own is None:
        return False
    return bool(_TOLD.search(inspect.getsource(own)))


def plain_ids(model: Any) -> Array:
    """Return ids below the vocabulary that the config names for nothing special."""
    config = _text(model.config)
    vocab = getattr(config, "vocab_size", None) or model.get_output_embeddings().weight.shape[0]
    special = {0, *_special(model.config)}
    return np.array([i for i in range(min(vocab, 4096)) if i not in special])


def _special(config: Any) -> set[int]:
    found: set[int] = set()
    for name, value in vars(config).items():
        if hasattr(value, "model_type"):
            found |= _special(value)
        elif re.fullmatch(r".*(token|tok)_(ids?|index|idx)|(pad|bos|eos|unk|mask)_index", name):
            values = value if isinstance(value, list | tuple) else [value]
            found |= {v for v in values if isinstance(v, int)}
    return found


def _draws(ids: Array) -> tuple[Any, Any]:
    place = np.full(int(ids.max()) + 1, -1)
    place[ids] = np.arange(len(ids))

    def draw(rng: np.random.Generator, batch: int, length: int) -> Array:
        return rng.choice(ids, (batch, length))

    def redraw(rng: np.random.Generator, x: Array) -> Array:
        return ids[(place[x] + rng.integers(1, len(ids), x.shape)) % len(ids)]

    return draw, redraw


def _text(config: Any) -> Any:
    """Return the part of a config that the decoder is built from."""
    try:
        return config.get_text_config(decoder=True)
    except (ValueError, AttributeError):
        return config


def sizes(config: Any) -> tuple[int, ...]:
    """Return every window, chunk and block size of the decoder's config."""
    found = set()
    for name, value in vars(_text(config)).items():
        if _SIZES.fullmatch(name) and type(value) is int and value > 1:
            found.add(value)
    return tuple(sorted(found))


def _longest(config: Any) -> int | None:
    text = _text(config)
    return next((v for n in _LONGEST if isinstance(v := getattr(text, n, None), int)), None)


def layer_masks(config: Any) -> tuple[Mask, ...]:
    """Return the mask that each decoder layer declares in its config; empty where none is told.

    Meaning: "sliding_attention" is `Causal() & Window(w)`, "chunked_attention" is
    `Causal() & Chunks(c)`, every other kind of layer `Causal()`.
    """
    text = _text(config)
    kinds = next((k for n in _KINDS if (k := getattr(text, n, None))), None)
    count = getattr(text, "num_hidden_layers", None) or getattr(text, "num_layers", 0)
    if not isinstance(kinds, list | tuple) or not all(isinstance(k, str) for k in kinds):
        window = getattr(text, "sliding_window", None)
        used = window and getattr(text, "use_sliding_window", True)
        kinds = ["sliding_attention" if used else "full_attention"] * (count or 0)
    return tuple(_mask(kind, text) for kind in kinds)


def _mask(kind: str, config: Any) -> Mask:
    names = ("sliding_window", "attention_window_size", "window_size", "sliding_window_size")
    window = next((v for n in names if isinstance(v := getattr(config, n, None), int)), None)
    chunk = getattr(config, "attention_chunk_size", None)
    if kind in ("sliding_attention", "local", "attention") and window:
        return Causal() & Window(window)
    if kind == "chunked_attention" and chunk:
        return Causal() & Chunks(chunk)
    return Causal()


def declared(model: Any) -> Any:
    """Return what a model declares: a mask a layer, or the three masks of an encoder-decoder."""
    if Calls(model=model).two_sided:
        return {"self": Causal(), "cross": Everything(), "encoder": _encoder_mask(model.config)}
    masks = layer_masks(model.config)
    return masks if len(set(masks)) > 1 else (masks or (Causal(),))[0]


def _encoder_mask(config: Any) -> Mask:
    """Return what an encoder layer sees: all, or a window on both sides as in LED."""
    widths = getattr(config, "attention_window", None)
    if not widths:
        return Everything()
    half = min(widths if isinstance(widths, list | tuple) else [widths]) // 2
    return Band(half, half)


def _two_sided(calls: Calls, name: str | None) -> Subject:
    """An encoder-decoder: `run` takes the target, on a fixed source."""
    draw, redraw = _draws(plain_ids(calls.model))
    fixed = draw(np.random.default_rng(7), 1, SOURCE)
    base = Subject(
        name=name or type(calls.model).__name__, run=calls.run, draw=draw, redraw=redraw,
        kind="ids", max_length=_longest(calls.model.config), code=CODE,
    )  # fmt: skip
    return _around_two(base, calls, fixed)


def _around_two(base: Subject, calls: Calls, fixed: Array) -> Subject:
    def both(source: Array, target: Array, **more: Any) -> Array:
        return calls.numbers(source, decoder_input_ids=calls.ids(target), **more)

    def run(target: Array) -> Array:
        return both(np.repeat(fixed, len(target), axis=0), target)

    def graph(target: Any) -> Any:
        source = calls.ids(np.repeat(fixed, len(target), axis=0))
        return calls.output(source, decoder_input_ids=target).logits

    def padded(source: Array, real: Array, target: Array) -> Array:
        return both(source, target, attention_mask=calls.ids(real.astype(np.int64)))

    def encode(source: Array) -> Array:
        import torch

        with torch.no_grad():
            return numpy_of(calls.model.get_encoder()(input_ids=calls.ids(source))[0])

    return replace(
        base, run=run, graph=graph, module=calls.model,
        rebuild=lambda other: _around_two(
            base, replace(calls, model=_runnable(other), evaluates=False), fixed
        ),
        stages=stages(calls, fixed),
        source=Source(draw=base.draw, redraw=base.redraw, run=both, encode=encode, padded=padded),
    )  # fmt: skip
