"""One sequence on its way: what of it was read, what was written, when it ends."""

from collections.abc import Sequence

import numpy as np

from hitherto.generation.request import Piece, Request
from hitherto.generation.sampling import sample
from hitherto.generation.stopping import Stopper
from hitherto.model.tokens import Tokenizer


class Continuation:
    """A request while it is served. It knows nothing of models and caches."""

    def __init__(self, number: int, request: Request, tokenizer: Tokenizer) -> None:
        self.number, self.request, self.tokenizer = number, request, tokenizer
        self.tokens = list(request.prompt)
        """The prompt, and what was written so far."""
        self.random = request.sampling.random(number)
        self.is_done = False
        self._stopper = Stopper(request.stop)

    @property
    def written(self) -> Sequence[int]:
        """What follows the prompt."""
        return self.tokens[len(self.request.prompt) :]

    def choose(self, logits: np.ndarray) -> int:
        """The token that follows, by these logits."""
        return sample(logits, self.tokens, self.request.sampling, self.random)

    def extend(self, token: int) -> Piece:
        """Write a token, and say what may be shown of it."""
        self.tokens.append(token)
        finish = None
        if token in self.tokenizer.ends:
            text, finish = self._stopper.flush(), "end"
        else:
            text, stopped = self._stopper.feed(self.tokenizer.spell(token))
            if stopped:
                finish = "stop"
            elif len(self.written) == self.request.max_tokens:
                text, finish = text + self._stopper.flush(), "length"
        self.is_done = finish is not None
        return Piece(self.number, token, text, finish)
