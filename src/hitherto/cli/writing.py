"""Let a decoder write, showing the text as it comes."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from hitherto.generation import Sampling, generate
from hitherto.generation.streaming import decoded
from hitherto.model import Decoder
from hitherto.model.byte_tokens import encode


def write(
    model: Decoder, prompt: str, sampling: Sampling, max_tokens: int, out: Console,
    stop: tuple[bytes, ...] = (),
) -> str:  # fmt: skip
    """Print the prompt and what a byte-level model writes after it; return what follows."""
    tokens = encode(prompt).tolist()
    pieces = generate(model, [tokens], sampling, max_tokens=max_tokens, stop=stop)
    return show((piece.text for piece in pieces), out, before=prompt)


def show(pieces: Iterable[bytes], out: Console, before: str = "") -> str:
    """Print text piece by piece, whole characters only; return it all."""
    out.print(Text(before, style="bold"), end="")
    written = []
    for piece in decoded(iter(pieces)):
        written.append(piece)
        out.print(Text(_printable(piece)), end="")
        out.file.flush()
    out.print()
    return "".join(written)


def _printable(text: str) -> str:
    """Keep a model trained on binary data from sending control codes to the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
