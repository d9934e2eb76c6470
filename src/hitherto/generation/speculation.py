"""Speculative decoding: several guessed tokens are checked in one step, and the right ones kept.

Source: https://arxiv.org/abs/2211.17192; trees: https://arxiv.org/abs/2305.09781
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hitherto.errors import ModelError, explain
from hitherto.generation.continuation import Continuation
from hitherto.generation.lookup import Draft, Lookup, look_up
from hitherto.generation.prefill import prefill
from hitherto.generation.request import Piece, Request, require_request
from hitherto.mask import Causal, Tree
from hitherto.model import Decoder
from hitherto.model.attention import Cache
from hitherto.model.steps import all_or_nothing
from hitherto.model.tokens import Tokenizer


class Speculation:
    """One request, written by guessing ahead; iterate over it for its pieces.

    What comes out is what the model writes alone, token for token (up to rounding, where two tokens
    are as likely as each other): a guess is kept only where it is the model's own choice.

    Args:
        model: a decoder. Where all its layers see everything before them, guesses form a tree; else
            a chain.
        request: with temperature 0.
        tokenizer: its tokenizer.
        lookup: how guesses are found; `Lookup()` unless given.
        chunk: prompt tokens run at once.
    Raises:
        ModelError: as `generate`; or for a temperature above 0.
    """

    def __init__(
        self,
        model: Decoder,
        request: Request,
        tokenizer: Tokenizer,
        lookup: Lookup | None = None,
        chunk: int = 512,
    ) -> None:
        require_request(request, model.config.vocab_size)
        model.stack.limits.require_room(len(request.prompt) + request.max_tokens - 1)
        if request.sampling.temperature != 0:
            raise ModelError(
                explain("temperature", "must be 0 to decode by speculation",
                        request.sampling.temperature, "use generate")
            )  # fmt: skip
        lookup = lookup or Lookup()
        self.lookup = lookup if _sees_all(model) else replace(lookup, branches=1)
        self.model, self.request, self.tokenizer, self.chunk = model, request, tokenizer, chunk
        self.steps = 0
        """Times the model was run, the prompt aside."""
        self.drafted = 0
        """Guesses that were checked, along the deepest branch of each step."""
        self.accepted = 0
        """Guesses that were right."""

    @property
    def acceptance(self) -> float:
        """Part of the guesses that were right; 0 where there were none."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @torch.no_grad()
    def __iter__(self) -> Iterator[Piece]:
        """Write, a piece for every token."""
        run, cache = Continuation(0, self.request, self.tokenizer), self.model.cache(rolling=False)
        device = self.model.stack.embedding.weight.device
        prompt = torch.tensor([list(self.request.prompt)], device=device)
        logits = prefill(self.model, prompt, cache, self.chunk)
        yield run.extend(run.choose(logits[0].cpu().numpy()))
        while not run.is_done:
            left = self.request.max_tokens - len(run.written)
            draft = look_up(run.tokens, self.lookup, left - 1)
            logits = self._check(draft, cache)
            kept = [0]
            yield from self._walk(run, draft, logits, kept)
            _keep(cache, len(draft.tokens), kept)

    def _check(self, draft: Draft, cache: Cache) -> Tensor:
        """Logits after every node of a draft; the cache then holds all of them."""
        start, device = cache[0].length, self.model.stack.embedding.weight.device
        positions = start + torch.tensor(draft.depths(), device=device)
        masks = self.model.masks
        if not draft.is_chain:
            masks = (Tree(np.array(draft.parents), start),) * len(masks)
        tokens = torch.tensor([draft.tokens], device=device)
        layout = [(slice(0, len(draft.tokens)), cache)]
        with all_or_nothing([cache]):
            hidden = self.model.stack(tokens, positions, masks, layout)
        self.steps += 1
        self.drafted += max(draft.depths())
        return self.model.logits(hidden)[0].cpu()

    def _walk(
        self, run: Continuation, draft: Draft, logits: Tensor, kept: list[int]
    ) -> Iterator[Piece]:
        """Follow the model's own choices down the tree, one step beyond the last right guess."""
        while not run.is_done:
            token = run.choose(logits[kept[-1]].numpy())
            yield run.extend(token)
            child = draft.child(kept[-1], token)
            if child is None:
                return
            self.accepted += 1
            kept.append(child)


def _sees_all(model: Decoder) -> bool:
    return all(mask == Causal() for mask in model.masks)


def _keep(cache: Cache, count: int, kept: Sequence[int]) -> None:
    """Of the last `count` positions keep these nodes, in this order."""
    for layer in cache:
        start = layer.length - count
        neat = next((i for i, node in enumerate(kept) if node != i), len(kept))
        keys, values, _ = layer.view()
        moved = torch.tensor([start + node for node in kept[neat:]], dtype=torch.int64)
        rows = [side.index_select(2, moved.to(side.device)) for side in (keys, values)]
        layer.truncate(start + neat)
        if len(moved):
            layer.append(*rows)
