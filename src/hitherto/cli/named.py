"""Open what a person names as a model: one that is installed, a file, a folder, or a run."""

from dataclasses import dataclass
from pathlib import Path

import torch

from hitherto.errors import ModelError, explain
from hitherto.model import Decoder
from hitherto.model.loading import ChatTemplate, load
from hitherto.model.loading.installed import find_model, is_known
from hitherto.model.tokens import ByteTokens, Tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A model, ready to read and write text."""

    model: Decoder
    """The decoder."""
    tokenizer: Tokenizer
    """Its tokenizer."""
    chat: ChatTemplate | None
    """How a conversation is spelled for it, if it was trained to converse."""


def open_model(name: str, dtype: str) -> Named:
    """The model that a name or a path stands for.

    Raises:
        ModelError: when nothing is there, or it cannot be used.
    """
    if dtype not in DTYPES:
        raise ModelError(explain("--dtype", f"must be {' or '.join(DTYPES)}", dtype, "use float32"))
    if not is_known(name) and _is_ours(Path(name)):
        from hitherto.cli.checkpoints import load_decoder

        model, _ = load_decoder(Path(name))
        return Named(model=model.to(DTYPES[dtype]), tokenizer=ByteTokens(), chat=None)
    found = load(find_model(name), DTYPES[dtype])
    return Named(model=found.model.eval(), tokenizer=found.tokenizer, chat=found.chat)


def _is_ours(path: Path) -> bool:
    """Whether this is a run or a checkpoint that hitherto saved: its config says no model type."""
    from hitherto.cli.runs import checkpoint_of

    inside = checkpoint_of(path)
    if inside != path:
        return True
    config = path / "config.json"
    return config.is_file() and b'"model_type"' not in config.read_bytes()
