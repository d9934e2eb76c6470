"""Generating: prompts in, tokens out one at a time, each sequence as if it were alone."""

from collections.abc import Iterator, Sequence

from hitherto.errors import ModelError, explain
from hitherto.generation.request import Piece, Request
from hitherto.generation.sampling import Sampling
from hitherto.generation.serving import Serving
from hitherto.model import Decoder
from hitherto.model.tokens import Tokenizer


def generate(
    model: Decoder,
    prompts: Sequence[bytes | Sequence[int]],
    sampling: Sampling | None = None,
    *,
    max_tokens: int = 256,
    stop: Sequence[bytes] = (),
    chunk: int = 512,
    tokenizer: Tokenizer | None = None,
) -> Iterator[Piece]:
    """Continue prompts of any lengths side by side, without padding.

    A sequence's text does not depend on the others, up to rounding: sequence i draws from
    `sampling.seed + i`, and attends to itself. Requests that come later: `Serving`.

    Args:
        model: a decoder.
        prompts: token ids, at least one each; for a byte-level model bytes.
        sampling: how tokens are drawn; `Sampling()` unless given.
        max_tokens: tokens to generate for each prompt, >= 1.
        stop: byte strings at which a sequence ends; they are not part of its text.
        chunk: prompt tokens run at once.
        tokenizer: spells tokens, and names those that end a text; bytes unless given.

    Raises:
        ModelError: at the call, for an empty prompt, a token beyond the vocabulary, or more
            positions than the model or its masks have.
    """
    if isinstance(prompts, (bytes, str)):
        raise ModelError(explain("prompts", "must be a list", prompts, "put the prompt in a list"))
    serving = Serving(model, tokenizer, chunk=chunk)
    for prompt in prompts:
        serving.add(
            Request(
                prompt=prompt, sampling=sampling or Sampling(), max_tokens=max_tokens, stop=stop
            )
        )
    return _steps(serving)


def complete(
    model: Decoder,
    prompts: Sequence[bytes | Sequence[int]],
    sampling: Sampling | None = None,
    **options: object,
) -> list[bytes]:
    """The whole text that `generate` gives for each prompt."""
    texts = [b""] * len(prompts)
    for piece in generate(model, prompts, sampling, **options):  # type: ignore[arg-type]
        texts[piece.sequence] += piece.text
    return texts


def _steps(serving: Serving) -> Iterator[Piece]:
    while not serving.is_idle:
        yield from serving.step()
