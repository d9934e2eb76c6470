"""Let a decoder write, showing the text as it comes."""

from rich.console import Console
from rich.text import Text

from hitherto.generation import Sampling, stream_text
from hitherto.model import Decoder


def write(
    model: Decoder, prompt: str, sampling: Sampling, max_tokens: int, out: Console,
    stop: tuple[str, ...] = (),
) -> str:  # fmt: skip
    """Print the prompt and what follows, piece by piece; return what follows."""
    out.print(Text(prompt, style="bold"), end="")
    written = []
    for piece in stream_text(model, prompt, sampling, max_tokens=max_tokens, stop=stop):
        written.append(piece)
        out.print(Text(_printable(piece)), end="")
        out.file.flush()
    out.print()
    return "".join(written)


def _printable(text: str) -> str:
    """Keep a model trained on binary data from sending control codes to the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
