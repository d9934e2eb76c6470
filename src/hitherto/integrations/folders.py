"""Transformers folders: a config alone, or a config with weights in safetensors."""

import json
from pathlib import Path
from typing import Any

from hitherto.errors import ModelError, Unsupported, explain
from hitherto.integrations.oddities import oddity
from hitherto.integrations.shrink import shrink
from hitherto.integrations.tiny import MOST_WEIGHTS, Task, architectures, build, tiny


def is_folder(path: Path) -> bool:
    """Whether a folder holds a transformers config."""
    try:
        return "model_type" in json.loads((path / "config.json").read_text())
    except (OSError, ValueError, TypeError):
        return False


def task_of(model_type: str) -> Task | None:
    """Return the list of transformers in which a model type stands, decoder-only first."""
    return next((t for t in ("causal", "seq2seq") if model_type in architectures(t)), None)


def open_folder(path: Path) -> tuple[Any, str]:
    """Return the model of a folder, and a line that says what it is.

    With weights in safetensors: those, in float32. Without: random weights, in a smaller copy when
    the config is large. Nothing is downloaded, and no code in the folder is run.

    Raises:
        ModelError: a config that the installed transformers cannot read or build.
    """
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
        model_class = _class_of(config)
        if any(path.glob("*.safetensors")):
            model = model_class.from_pretrained(
                path, local_files_only=True, use_safetensors=True, dtype="float32"
            )
            return model.eval(), "the weights of the folder"
        return _random(model_class, config)
    except (ModelError, Unsupported):
        raise
    except Exception as error:
        raise ModelError(
            explain(str(path), "must hold a config that the installed transformers can build",
                    f"{type(error).__name__}: {error}", "check config.json")
        ) from error  # fmt: skip


def _class_of(config: Any) -> Any:
    import transformers

    task = task_of(config.model_type)
    named = [getattr(transformers, n, None) for n in getattr(config, "architectures", None) or ()]
    heads = [c for c in named if c is not None and c.__name__.endswith(("LM", "LMHeadModel"))]
    if heads:
        return heads[0]
    if task is None:
        raise Unsupported(
            explain("config.json", "must be of a language model", config.model_type,
                    "write module:factory for other models")
        )  # fmt: skip
    return getattr(transformers, architectures(task)[config.model_type])


def _random(model_class: Any, config: Any) -> tuple[Any, str]:
    try:
        return build(model_class, config), "random weights"
    except Unsupported:
        small = shrink(type(config), oddity(config.model_type).fixes, config)
        return build(model_class, small), f"a smaller copy: over {MOST_WEIGHTS:,} weights"


def open_type(model_type: str) -> tuple[Any, str]:
    """Return a tiny random model of a model type, and a line that says what it is.

    Raises:
        Unsupported: no such type, or one that is left out, with the reason.
        ModelError: it does not build.
    """
    left_out = oddity(model_type).left_out
    task = task_of(model_type)
    if task is None or left_out:
        raise Unsupported(
            explain("TARGET", "must be module:factory, a folder, or a language model of the "
                    "installed transformers", model_type,
                    left_out or "see `hitherto sweep` for those")
        )  # fmt: skip
    try:
        return tiny(model_type, task), "tiny, random weights"
    except Exception as error:
        raise ModelError(
            explain("TARGET", "must build when made tiny", f"{type(error).__name__}: {error}",
                    "give a config folder instead")
        ) from error  # fmt: skip
