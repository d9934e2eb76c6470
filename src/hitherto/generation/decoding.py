"""Generating: prompts in, tokens out one at a time, each sequence as if it were alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hitherto.errors import ModelError, explain
from hitherto.generation.prefill import prefill
from hitherto.generation.sampling import Sampling, sample
from hitherto.generation.stopping import Stopper
from hitherto.model import Decoder
from hitherto.model.attention import Cache
from hitherto.model.byte_tokens import VOCAB_SIZE


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of one sequence."""

    sequence: int
    """Index of its prompt."""
    token: int
    """Its id."""
    text: bytes
    """What may be shown now: nothing while it may become a stop string, more when it did not."""
    finish: str | None = None
    """Why the sequence ends here: "stop" or "length"; None when it goes on."""


def one_byte(token: int) -> bytes:
    """The text of a byte-level token."""
    return bytes((token,))


def generate(
    model: Decoder,
    prompts: Sequence[bytes | Sequence[int]],
    sampling: Sampling | None = None,
    *,
    max_tokens: int = 256,
    stop: Sequence[bytes] = (),
    chunk: int = 512,
    spell: Callable[[int], bytes] = one_byte,
) -> Iterator[Piece]:
    """Continue prompts of any lengths side by side, without padding.

    A sequence's text does not depend on the others, up to rounding: sequence i draws from
    `sampling.seed + i`, and attends to itself.

    Args:
        model: a decoder.
        prompts: token ids, at least one each; for a byte-level model bytes.
        sampling: how tokens are drawn; `Sampling()` unless given.
        max_tokens: tokens to generate for each prompt, >= 1.
        stop: byte strings at which a sequence ends; they are not part of its text.
        chunk: prompt tokens run at once.
        spell: the bytes of a token.

    Raises:
        ModelError: at the call, for an empty prompt, a token beyond the vocabulary, or more
            positions than the model or its masks have.
    """
    if isinstance(prompts, (bytes, str)):
        raise ModelError(explain("prompts", "must be a list", prompts, "put the prompt in a list"))
    if max_tokens < 1:
        raise ModelError(explain("max_tokens", "must be >= 1", max_tokens, "ask for a token"))
    vocab = model.config.vocab_size
    if spell is one_byte and vocab > VOCAB_SIZE:
        raise ModelError(
            explain("spell", "must be given beyond 256 tokens", vocab, "pass the tokenizer's bytes")
        )
    for prompt in prompts:
        _require_prompt(prompt, vocab)
        model.stack.limits.require_room(len(prompt) + max_tokens - 1)
    sampling = sampling or Sampling()
    runs = [
        _Run(index, prompt, sampling, Stopper(stop), model.cache(), max_tokens)
        for index, prompt in enumerate(prompts)
    ]
    return _decode(model, runs, chunk, spell)


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


class _Run:
    """One sequence on its way."""

    def __init__(
        self,
        index: int,
        prompt: bytes | Sequence[int],
        sampling: Sampling,
        stopper: Stopper,
        cache: Cache,
        left: int,
    ) -> None:
        self.index, self.tokens = index, list(prompt)
        self.sampling, self.random = sampling, sampling.random(index)
        self.stopper, self.cache, self.left = stopper, cache, left

    def extend(self, logits: np.ndarray, spell: Callable[[int], bytes]) -> Piece:
        token = sample(logits, self.tokens, self.sampling, self.random)
        self.tokens.append(token)
        self.left -= 1
        text, stopped = self.stopper.feed(spell(token))
        if stopped:
            self.left = 0
            return Piece(self.index, token, text, "stop")
        if self.left == 0:
            return Piece(self.index, token, text + self.stopper.flush(), "length")
        return Piece(self.index, token, text)


def _decode(
    model: Decoder, runs: list[_Run], chunk: int, spell: Callable[[int], bytes]
) -> Iterator[Piece]:
    device = next(model.parameters()).device
    logits = [
        prefill(model, torch.tensor([run.tokens], device=device), run.cache, chunk) for run in runs
    ]
    while runs:
        for run, row in zip(runs, logits, strict=True):
            yield run.extend(row[-1].cpu().numpy(), spell)
        runs = [run for run in runs if run.left]
        logits = _next_logits(model, runs, device) if runs else []


@torch.no_grad()
def _next_logits(model: Decoder, runs: list[_Run], device: torch.device) -> list[Tensor]:
    last = [torch.tensor(run.tokens[-1:], device=device) for run in runs]
    return model.ragged(last, [run.cache for run in runs])


def _require_prompt(prompt: bytes | Sequence[int], vocab: int) -> None:
    if len(prompt) == 0:
        raise ModelError(
            explain("prompts", "must hold at least one token each", "an empty one", "start a text")
        )
    if min(prompt) < 0 or max(prompt) >= vocab:
        raise ModelError(
            explain(
                "prompts",
                f"must hold token ids from 0 to {vocab - 1}",
                max(prompt) if min(prompt) >= 0 else min(prompt),
                "use the model's own tokenizer",
            )
        )
