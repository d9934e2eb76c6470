"""What `hitherto audit` is pointed at: module:factory, a folder, or a model type."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitherto.errors import ModelError, Unsupported, explain
from hitherto.mask import Causal


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model to audit."""

    model: Any
    """A module, a function or a Subject."""
    declared: Any
    """The masks that it declares by itself."""
    what: str
    """One line: what it is."""


def find(target: str) -> Target:
    """Return the model that a target names.

    Raises:
        ModelError: what was found cannot be used.
        Unsupported: nothing was found; or transformers is needed and not installed.
    """
    path = Path(target)
    if path.is_dir():
        return _folder(path)
    if ":" in target:
        return _factory(target)
    return _transformers(target)


def _folder(path: Path) -> Target:
    from hitherto.cli.runs import checkpoint_of

    _require_transformers_for(path)
    from hitherto.integrations.folders import is_folder, open_folder

    if is_folder(path):
        return _library_model(*open_folder(path))
    from hitherto.model import Decoder
    from hitherto.training import load

    model, _ = load(checkpoint_of(path))
    if not isinstance(model, Decoder):
        raise Unsupported(
            explain("TARGET", "must hold a decoder", type(model).__name__,
                    "audit an encoder-decoder from Python, with a Subject")
        )  # fmt: skip
    masks = tuple(model.config.masks()) if callable(getattr(model.config, "masks", None)) else ()
    return Target(model=model, declared=masks or Causal(), what="a hitherto checkpoint")


def _require_transformers_for(path: Path) -> None:
    """A folder of ours needs no transformers; what names a model type does."""
    from hitherto.integrations.folders import is_folder

    if is_folder(path):
        _require_transformers()


def _require_transformers() -> None:
    try:
        importlib.import_module("transformers")
    except ImportError:
        raise Unsupported(
            explain("TARGET", "needs the transformers package", "not installed",
                    "install hitherto[transformers], or write module:factory")
        ) from None  # fmt: skip


def _transformers(model_type: str) -> Target:
    _require_transformers()
    from hitherto.integrations.folders import open_type
    from hitherto.integrations.oddities import oddity

    found, special = _library_model(*open_type(model_type)), oddity(model_type)
    if special.is_causal:
        return found
    return Target(model=found.model, declared=special.mask, what=f"{found.what}; {special.note}")


def _library_model(model: Any, what: str) -> Target:
    from hitherto.integrations.transformers import declared, subject

    kind = f"transformers {type(model).__name__}, {what}"
    return Target(model=subject(model), declared=declared(model), what=kind)


def _factory(target: str) -> Target:
    """Import a module and take, or call, what it names."""
    module_name, _, name = target.partition(":")
    if sys.path[0] != "":
        sys.path.insert(0, "")
    try:
        found = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
        made = found() if _is_factory(found) else found
    except Exception as error:
        raise ModelError(
            explain("TARGET", "must name a module and a function in it that returns a model",
                    f"{target}: {type(error).__name__}: {error}",
                    "write e.g. my_package.model:tiny")
        ) from error  # fmt: skip
    if type(made).__module__.startswith("transformers."):
        return _library_model(made, f"made by {target}")
    return Target(model=made, declared=Causal(), what=f"{type(made).__name__}, made by {target}")


def _is_factory(found: Any) -> bool:
    """Whether calling it makes the model: classes and functions, but no module or Subject."""
    from hitherto.audit import Subject

    return (not isinstance(found, Subject) and not hasattr(found, "named_modules")) or (
        isinstance(found, type)
    )
