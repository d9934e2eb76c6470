"""Text as it is generated."""

import codecs
from collections.abc import Iterator, Sequence

from hitherto.generation.decoding import generate
from hitherto.generation.sampling import Sampling
from hitherto.model import Decoder
from hitherto.model.tokens import ByteTokens, Tokenizer


def stream_text(
    model: Decoder,
    prompt: bytes | str,
    sampling: Sampling | None = None,
    *,
    max_tokens: int = 256,
    stop: Sequence[bytes] = (),
    chunk: int = 512,
    tokenizer: Tokenizer | None = None,
) -> Iterator[str]:
    """Continue one prompt, in pieces that never cut a character.

    Bytes that are no UTF-8 become U+FFFD. A prompt of bytes is for byte-level models. See
    `generate` for the rest.
    """
    ids = (tokenizer or ByteTokens()).encode(prompt) if isinstance(prompt, str) else prompt
    pieces = generate(
        model, [ids], sampling, max_tokens=max_tokens, stop=stop, chunk=chunk, tokenizer=tokenizer
    )
    return decoded(piece.text for piece in pieces)


def decoded(pieces: Iterator[bytes]) -> Iterator[str]:
    """UTF-8 text of bytes that come cut anywhere."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            yield text
    if text := decoder.decode(b"", final=True):
        yield text
