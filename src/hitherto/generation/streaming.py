"""Text as it is generated."""

import codecs
from collections.abc import Iterator, Sequence

from hitherto.generation.decoding import generate
from hitherto.generation.sampling import Sampling
from hitherto.model import Decoder


def stream_text(
    model: Decoder,
    prompt: bytes | str,
    sampling: Sampling | None = None,
    *,
    max_tokens: int = 256,
    stop: Sequence[bytes] = (),
    chunk: int = 512,
) -> Iterator[str]:
    """Continue one prompt with a byte-level model, in pieces that never cut a character.

    Bytes that are no UTF-8 become U+FFFD. See `generate` for the rest.
    """
    prompt = prompt.encode() if isinstance(prompt, str) else prompt
    pieces = generate(model, [prompt], sampling, max_tokens=max_tokens, stop=stop, chunk=chunk)
    return decoded(piece.text for piece in pieces)


def decoded(pieces: Iterator[bytes]) -> Iterator[str]:
    """UTF-8 text of bytes that come cut anywhere."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            yield text
    if text := decoder.decode(b"", final=True):
        yield text
