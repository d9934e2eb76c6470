"""Many requests at once: sequences of any lengths in one step, new ones between steps."""

from collections import deque

import torch
from torch import Tensor

from hitherto.cache import Paged, Pool
from hitherto.errors import ModelError, explain
from hitherto.generation.continuation import Continuation
from hitherto.generation.prefixes import Prefixes
from hitherto.generation.request import Piece, Request, require_request
from hitherto.model import Decoder
from hitherto.model.attention import Cache
from hitherto.model.byte_tokens import VOCAB_SIZE
from hitherto.model.tokens import ByteTokens, Tokenizer


class Serving:
    """Requests that are read and written side by side, without padding.

    A step runs one token of every sequence that is being written, and the next `chunk` tokens of
    prompts that are being read: a long prompt does not keep others waiting. A sequence's text does
    not depend on its neighbours, up to rounding.

    Args:
        model: a decoder.
        tokenizer: its tokenizer; bytes unless given.
        slots: sequences at once, at most; the others wait their turn.
        chunk: prompt tokens run in one step, to bound memory. It is longer where a layer's mask
            looks ahead over the cut (a prefix that sees itself both ways stays whole).
        pages: pages for each layer, shared by all sequences: prompts that begin alike are then read
            once, and requests wait until there is room for them to their end. None gives each
            sequence a cache of its own, which forgets what its layer's mask does.
        page_size: positions in a page.
    """

    def __init__(
        self,
        model: Decoder,
        tokenizer: Tokenizer | None = None,
        *,
        slots: int | None = None,
        chunk: int = 512,
        pages: int | None = None,
        page_size: int = 16,
    ) -> None:
        _require(model, tokenizer, slots, chunk)
        self.model, self.tokenizer = model, tokenizer or ByteTokens()
        self.slots, self.chunk = slots, chunk
        self.prefixes: Prefixes | None = None
        if pages is not None:
            pools = [Pool(pages, page_size) for _ in model.masks]
            self.prefixes = Prefixes(pools)
        self._waiting: deque[Continuation] = deque()
        self._running: list[tuple[Continuation, Cache]] = []
        self._added = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing left to do."""
        return not (self._waiting or self._running)

    @property
    def nbytes(self) -> int:
        """Bytes of the caches held."""
        if self.prefixes is not None:
            return sum(pool.nbytes for pool in self.prefixes.pools)
        return sum(layer.nbytes for _, cache in self._running for layer in cache)

    def add(self, request: Request) -> int:
        """Take a request on; it joins in the next step that has room. Returns its number.

        Raises:
            ModelError: for an empty prompt, a token beyond the vocabulary, or more positions than
                the model, its masks or the pages have.
        """
        require_request(request, self.model.config.vocab_size)
        length = len(request.prompt) + request.max_tokens - 1
        self.model.stack.limits.require_room(length)
        if self.prefixes is not None and self._pages(request) > self.prefixes.pools[0].num_pages:
            raise ModelError(
                explain("pages", f"must hold {length} positions of one request",
                        self.prefixes.pools[0].num_pages, "give more pages, or ask for less")
            )  # fmt: skip
        sequence = Continuation(self._added, request, self.tokenizer)
        self._waiting.append(sequence)
        self._added += 1
        return sequence.number

    @torch.no_grad()
    def step(self) -> list[Piece]:
        """Run every sequence a bit further; what was written, at most a token each."""
        self._admit()
        parts = self._parts()
        if not parts:
            return []
        device = self.model.stack.embedding.weight.device
        tokens, caches = [], []
        for (sequence, cache), count in parts:
            start = cache[0].length
            tokens.append(torch.tensor(sequence.tokens[start : start + count], device=device))
            caches.append(cache)
        logits = self.model.ragged(tokens, caches, last=True)
        pieces = [
            self._written(sequence, cache, row)
            for ((sequence, cache), _), row in zip(parts, logits, strict=True)
            if cache[0].length == len(sequence.tokens)
        ]
        self._running = [run for run in self._running if not run[0].is_done]
        return pieces

    def cancel(self, number: int) -> None:
        """Forget a request; nothing more comes of it."""
        self._waiting = deque(s for s in self._waiting if s.number != number)
        for sequence, cache in self._running:
            if sequence.number == number:
                _release(cache)
        self._running = [run for run in self._running if run[0].number != number]

    def _written(self, sequence: Continuation, cache: Cache, logits: Tensor) -> Piece:
        if self.prefixes is not None and not sequence.written:
            self.prefixes.keep(sequence.request.prompt, cache)  # type: ignore[arg-type]
        piece = sequence.extend(sequence.choose(logits[-1].cpu().numpy()))
        if sequence.is_done:
            _release(cache)
        return piece

    def _parts(self) -> list[tuple[tuple[Continuation, Cache], int]]:
        """How many tokens of each sequence are run in this step."""
        parts, left = [], self.chunk
        for run in self._running:
            start, stop = run[1][0].length, len(run[0].tokens)
            count = stop - start
            if count > 1:
                if left <= 0:
                    continue
                count = self.model.stack.limits.next_cut(start, left, stop) - start
                left -= count
            parts.append((run, count))
        return parts

    def _admit(self) -> None:
        while self._waiting and (self.slots is None or len(self._running) < self.slots):
            if self.prefixes is None:
                cache: Cache = self.model.cache()
            elif self._has_room(self.prefixes):
                cache = self.prefixes.fork(self._waiting[0].request.prompt)
            else:
                return
            self._running.append((self._waiting.popleft(), cache))

    def _has_room(self, prefixes: Prefixes) -> bool:
        """Whether the next request can be served to its end; forgets prefixes if it must."""
        promised = sum(self._pages(sequence.request) for sequence, _ in self._running)
        needed = promised + self._pages(self._waiting[0].request)
        room = prefixes.pools[0].num_pages
        while needed + prefixes.pages > room and prefixes.drop_oldest():
            pass
        return needed + prefixes.pages <= room

    def _pages(self, request: Request) -> int:
        """Pages of a layer that a request takes at its longest."""
        assert self.prefixes is not None
        length = len(request.prompt) + request.max_tokens - 1
        return -(-length // self.prefixes.pools[0].page_size)


def _release(cache: Cache) -> None:
    for layer in cache:
        if isinstance(layer, Paged):
            layer.release()


def _require(model: Decoder, tokenizer: Tokenizer | None, slots: int | None, chunk: int) -> None:
    vocab = model.config.vocab_size
    if tokenizer is None and vocab > VOCAB_SIZE:
        raise ModelError(
            explain("tokenizer", "must be given beyond 256 tokens", vocab, "pass the model's own")
        )
    for name, value in (("slots", slots), ("chunk", chunk)):
        if value is not None and value < 1:
            raise ModelError(explain(name, "must be >= 1", value, "use more"))
