"""Open what a person names as a checkpoint."""

from pathlib import Path

from hitherto.cli.runs import checkpoint_of
from hitherto.errors import ModelError, explain
from hitherto.model import Decoder
from hitherto.training import State, load


def load_decoder(path: Path) -> tuple[Decoder, State]:
    """Return the byte-level decoder of a run or checkpoint, and how far it was trained."""
    model, state = load(checkpoint_of(path))
    if isinstance(model, Decoder) and model.config.vocab_size == 256:
        return model, state
    raise ModelError(
        explain("checkpoint", "must be a decoder over bytes, vocab_size 256",
                f"{type(model).__name__} in {path}", "use hitherto from Python for other models")
    )  # fmt: skip
