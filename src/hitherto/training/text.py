"""Text to train on: any file, read as bytes."""

import os
from pathlib import Path

from hitherto.errors import ModelError, explain

SHORTEST = 1024
"""Bytes; less is too little to hold any out."""


def read_text(path: str | os.PathLike[str]) -> bytes:
    """Read a file to train on. Binary files are fine: the model reads bytes, not letters.

    Raises:
        ModelError: when it is missing, a directory, unreadable, empty or below 1024 bytes.
    """
    file = Path(path)
    rule, fix = f"must be a file of at least {SHORTEST} bytes", "give the path of a text file"
    if file.is_dir():
        raise ModelError(explain("text", rule, f"the directory {file}", fix))
    try:
        text = file.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(explain("text", rule, f"{file}, which does not exist", fix)) from error
    except OSError as error:
        raise ModelError(explain("text", rule, f"{file}: {error.strerror}", fix)) from error
    if len(text) < SHORTEST:
        size = f"{file} of {len(text)} bytes" if text else f"{file}, which is empty"
        raise ModelError(explain("text", rule, size, "give a longer one"))
    return text


def split(text: bytes, fraction: float = 0.1) -> tuple[bytes, bytes]:
    """Train on the first part, hold out the last `fraction`; both contiguous, neither empty."""
    held_out = round(len(text) * fraction)
    if not 0 < held_out < len(text):
        raise ModelError(
            explain(
                "split(fraction)",
                "must leave at least one byte on each side",
                f"{fraction} of {len(text)} bytes",
                "give a longer text or another fraction",
            )
        )
    return text[:-held_out], text[-held_out:]
