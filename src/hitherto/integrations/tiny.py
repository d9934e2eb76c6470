"""A tiny random model of any architecture, built offline."""

from typing import Any, Literal

from hitherto.errors import Unsupported, explain
from hitherto.integrations.oddities import oddity
from hitherto.integrations.shrink import shrink

MOST_WEIGHTS = 20_000_000
"""Larger models are refused before any memory is taken."""
Task = Literal["causal", "seq2seq"]


def architectures(task: Task = "causal") -> dict[str, str]:
    """Return what the installed transformers lists: model type -> class of its language model."""
    from transformers.models.auto import modeling_auto as auto

    names = {
        "causal": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "seq2seq": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }[task]
    return {kind: name if isinstance(name, str) else name[0] for kind, name in names.items()}


def tiny_config(model_type: str, task: Task = "causal") -> Any:
    """Return a tiny config of a model type, as a decoder where the architecture can be one.

    Of a composite architecture whose language model is built from the text part alone, it is that
    part.
    """
    import transformers

    own = getattr(transformers, architectures(task)[model_type]).config_class
    config = shrink(own or transformers.CONFIG_MAPPING[model_type], oddity(model_type).fixes)
    if task == "causal" and hasattr(config, "is_decoder"):
        config.is_decoder = True
        if hasattr(config, "is_encoder_decoder"):
            config.is_encoder_decoder = False
    return config


def tiny(model_type: str, task: Task = "causal", seed: int = 0) -> Any:
    """Return a tiny random model in eval mode, float32; nothing is downloaded.

    Raises:
        Unsupported: no such architecture, or one that cannot be made small.
        Exception: what the library raises while building it.
    """
    names = architectures(task)
    if model_type not in names:
        raise Unsupported(
            explain("model type", f"must be one that transformers lists for {task} language models",
                    model_type, "see `hitherto sweep`")
        )  # fmt: skip
    import transformers

    return build(getattr(transformers, names[model_type]), tiny_config(model_type, task), seed)


def build(model_class: Any, config: Any, seed: int = 0) -> Any:
    """Return a random model of a class, after counting its weights without allocating them."""
    import torch

    config = _own(model_class, config)
    with torch.device("meta"):
        weights = sum(p.numel() for p in model_class._from_config(config).parameters())
    if weights > MOST_WEIGHTS:
        raise Unsupported(
            explain("config", f"must shrink to {MOST_WEIGHTS:,} weights at most", f"{weights:,}",
                    "add what is special about it to integrations/oddities.py")
        )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model_class._from_config(config).eval()


def _own(model_class: Any, config: Any) -> Any:
    """Return the part of a composite config that the class is built from."""
    wanted = model_class.config_class
    if wanted is None or isinstance(config, wanted):
        return config
    parts = [v for v in vars(config).values() if isinstance(v, wanted)]
    return parts[0] if parts else config
