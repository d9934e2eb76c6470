"""What is asked of generation, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hitherto.errors import ModelError, explain
from hitherto.generation.sampling import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A prompt to continue."""

    prompt: Sequence[int]
    """Token ids, at least one; bytes for a byte-level model."""
    sampling: Sampling = field(default_factory=Sampling)
    """How tokens are drawn; request n of a batch draws from `sampling.seed + n`."""
    max_tokens: int = 256
    """Tokens to generate at most, >= 1."""
    stop: Sequence[bytes] = ()
    """Byte strings at which the text ends; they are not part of it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of one sequence."""

    sequence: int
    """Number of its request, from 0."""
    token: int
    """Its id."""
    text: bytes
    """What may be shown now: nothing while it may become a stop string, more when it did not."""
    finish: str | None = None
    """Why the sequence ends here: "stop" at a stop string, "end" at a token that ends a text,
    "length" after max_tokens; None when it goes on."""


def require_request(request: Request, vocab: int) -> None:
    """Raise ModelError unless a model with so many tokens can take the request."""
    prompt = request.prompt
    if request.max_tokens < 1:
        raise ModelError(
            explain("max_tokens", "must be >= 1", request.max_tokens, "ask for a token")
        )
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
