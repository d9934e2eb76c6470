"""`hitherto score`: how likely a text is under a model."""

import json as jsonlib
import sys
from pathlib import Path

import torch

from hitherto.cli.named import open_model
from hitherto.cli.terminal import OK, console, say
from hitherto.errors import ModelError, explain
from hitherto.generation import score as score_tokens
from hitherto.model.tokens import Tokenizer


def score(file: Path, model: str, window: int, stride: int | None, dtype: str, json: bool) -> int:
    """Print log-likelihood and bits per byte of a file, and the windows they come from."""
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        raise ModelError(
            explain("FILE", "must be UTF-8 text", str(file), "convert it first")
        ) from None
    named = open_model(model, dtype)
    tokens = named.tokenizer.encode(text)
    found = score_tokens(
        named.model, torch.tensor(tokens, dtype=torch.int64), window=window, stride=stride
    )
    nbytes = len(text.encode()) - _unpredicted(named.tokenizer, tokens)
    bits = found.bits_per_byte(nbytes)
    where = (
        f"in windows of {found.window} tokens, {found.stride} of them new after the first"
        if found.predicted >= found.window
        else "in one window"
    )
    say(
        console(json),
        f"{bits:.4f} bits a byte: log-likelihood {-found.nats:.2f} nats of {found.predicted} "
        f"tokens, {nbytes} bytes, {where}",
    )
    if json:
        line = {
            "bits_per_byte": bits, "log_likelihood": -found.nats, "tokens": found.predicted,
            "bytes": nbytes, "window": found.window, "stride": found.stride, "model": model,
        }  # fmt: skip
        sys.stdout.write(jsonlib.dumps(line) + "\n")
    return OK


def _unpredicted(tokenizer: Tokenizer, tokens: list[int]) -> int:
    """Bytes of the first token, which nothing comes before; a begin-of-text token has none."""
    return len(tokenizer.spell(tokens[0])) if tokens else 0
