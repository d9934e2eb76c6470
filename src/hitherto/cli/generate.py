"""`hitherto generate`: text from a trained decoder."""

import json as jsonlib
import sys
from pathlib import Path

from hitherto.cli.checkpoints import load_decoder
from hitherto.cli.terminal import OK, console
from hitherto.cli.writing import write
from hitherto.generation import Sampling


def generate(checkpoint: Path, prompt: str, max_tokens: int, temperature: float,
             top_k: int | None, top_p: float | None, seed: int, stop: list[str],
             json: bool) -> int:  # fmt: skip
    """Write on from a prompt."""
    model, _ = load_decoder(checkpoint)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    written = write(model, prompt, sampling, max_tokens, console(json), tuple(stop))
    if json:
        sys.stdout.write(jsonlib.dumps({"prompt": prompt, "text": written, "seed": seed}) + "\n")
    return OK
