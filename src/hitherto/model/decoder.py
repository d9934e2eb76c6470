"""The decoder: tokens in, logits out. GPT-2, Llama, Gemma 3 and T5 differ by config alone.

Read from the bottom: a `Decoder` is a `Stack` and a head, a `Stack` is an embedding and `Block`s.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from hitherto.attention import Relative
from hitherto.cache import Growing, Rolling
from hitherto.mask import Mask
from hitherto.model.attention import (
    Attend,
    Attention,
    Cache,
    CrossAttention,
    Layout,
    Part,
    Sight,
    Source,
)
from hitherto.model.config import DecoderConfig
from hitherto.model.layers import Angles, FeedForward, Head, Norm, angles
from hitherto.model.limits import Limits, forgets, require_tokens
from hitherto.model.packing import place_documents
from hitherto.model.steps import all_or_nothing
from hitherto.model.weights import drawn_from


class Block(nn.Module):
    """Attention, then feed-forward; each is added to what came in."""

    def __init__(self, config: DecoderConfig, crosses: bool) -> None:
        super().__init__()

        def after() -> nn.Module:
            return Norm(config, config.width) if config.norm_after else nn.Identity()

        self.attention_norm = Norm(config, config.width)
        self.attention, self.attention_after = Attention(config), after()
        if crosses:
            self.cross_norm = Norm(config, config.width)
            self.cross, self.cross_after = CrossAttention(config), after()
        self.feed_forward_norm = Norm(config, config.width)
        self.feed_forward, self.feed_forward_after = FeedForward(config), after()

    def forward(
        self, x: Float[Tensor, "batch queries width"], sight: Sight, source: Source | None = None
    ) -> Float[Tensor, "batch queries width"]:
        """The only places where tokens meet are the two attentions."""
        x = x + self.attention_after(self.attention(self.attention_norm(x), sight))
        if source is not None:
            x = x + self.cross_after(self.cross(self.cross_norm(x), source))
        return x + self.feed_forward_after(self.feed_forward(self.feed_forward_norm(x)))


class Stack(nn.Module):
    """Embedding, blocks and a last norm: a decoder without its head, or an encoder."""

    def __init__(self, config: DecoderConfig, crosses: bool = False) -> None:
        super().__init__()
        self.config = config
        self.masks = config.masks()
        self.limits = Limits(config.max_length, self.masks)
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        if config.positions == "learned":
            self.places = nn.Embedding(config.max_length, config.width)
        if config.positions == "relative":
            self.relative = nn.Parameter(torch.empty(config.relative_buckets, config.num_heads))
        self.blocks = nn.ModuleList(Block(config, crosses) for _ in range(config.num_layers))
        self.norm = Norm(config, config.width)

    def forward(
        self,
        tokens: Int64[Tensor, "batch queries"],
        positions: Int64[Tensor, "*batch queries"],
        masks: Sequence[Mask],
        layout: Layout,
        sources: Sequence[Source] | None = None,
        attend: Attend | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Run the blocks on tokens at these positions, under one mask a layer."""
        x = self.embedding(tokens) * self.config.embedding_scale
        if self.config.positions == "learned":
            x = x + self.places(positions)
        bias, turns = self._bias(), self._angles(positions)
        for layer, block in enumerate(self.blocks):
            parts = [Part(where, cache[layer] if cache else None) for where, cache in layout]
            sight = Sight(
                mask=masks[layer], parts=parts, angles=turns[layer], bias=bias, attend=attend
            )
            x = block(x, sight, sources and sources[layer])
        return self.norm(x)

    def step(
        self,
        tokens: Int64[Tensor, "batch queries"],
        layout: Layout,
        sources: Sequence[Source] | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Run tokens that follow their caches; the length is read once, here."""
        caches = [cache for _, cache in layout if cache is not None]
        keeps_gradients = torch.is_grad_enabled() and not caches
        with all_or_nothing(caches), torch.set_grad_enabled(keeps_gradients):
            positions = []
            for where, cache in layout:
                start, count = cache[0].length if cache else 0, where.stop - where.start
                self.limits.require_step(start, count)
                positions.append(torch.arange(start, start + count, device=tokens.device))
            return self(tokens, torch.cat(positions), self.masks, layout, sources)

    def cache(self, rolling: bool = True) -> list[Growing | Rolling]:
        """An empty cache: one a layer, rolling where the layer's mask forgets."""
        return [Rolling(m) if rolling and forgets(m) else Growing() for m in self.masks]

    def _bias(self) -> Relative | None:
        """T5's table, shared by all layers; its buckets have two sides if a mask looks ahead."""
        if self.config.positions != "relative":
            return None
        return Relative.bucketed(
            self.relative,
            bidirectional=bool(self.limits.ahead),
            max_distance=self.config.relative_distance,
        )

    def _angles(self, positions: Int64[Tensor, "*batch queries"]) -> list[Angles | None]:
        if self.config.positions != "rotary":
            return [None] * self.config.num_layers
        rotaries, dtype = self.config.rotaries(), self.norm.weight.dtype
        head_dim, factors = self.config.head_dim, self.config.rotary_factors
        turns = {r: angles(positions, head_dim, *r, dtype, factors) for r in set(rotaries)}
        return [turns[rotary] for rotary in rotaries]


class Decoder(nn.Module):
    """A language model: each layer has its mask, and the masks alone say who sees whom.

    Args:
        config: sizes and choices.
        seed: the weights are drawn from it; torch's own random state is not touched.
    """

    def __init__(self, config: DecoderConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        with drawn_from(seed, self, config.num_layers):
            self.stack = Stack(config)
            self.head = Head(config)

    def forward(
        self,
        tokens: Int64[Tensor, "batch queries"],
        *,
        cache: Cache | None = None,
        documents: Int64[Tensor, "batch queries"] | None = None,
    ) -> Float[Tensor, "batch queries vocab"]:
        """Logits of what follows each token, in float32 or better.

        Args:
            tokens: ids; with a cache, those that follow what the cache has seen.
            cache: from `cache()`. It is extended by these tokens, and no gradient is kept. An
                exception or Ctrl-C in here leaves it as it was.
            documents: ids of packed documents, -1 for padding. A document is a run of equal ids; it
                sees itself only, and its positions start at 0, so that it gives what it gives
                alone. Not together with a cache, nor with masks that count from the start of the
                row (`Prefix`, `Chunks`, ...).

        Raises:
            ModelError: tokens of a wrong shape, too many positions, or a cache at a cut over which
                a layer's mask looks ahead.
        """
        return self.logits(self.hidden(tokens, cache=cache, documents=documents))

    def hidden(
        self,
        tokens: Int64[Tensor, "batch queries"],
        *,
        cache: Cache | None = None,
        documents: Int64[Tensor, "batch queries"] | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """As `forward`, but the vectors before the head."""
        require_tokens(tokens, 2)
        whole = slice(0, tokens.shape[1])
        if documents is None:
            return self.stack.step(tokens, [(whole, cache)])
        positions, masks = place_documents(documents, self.masks, cache)
        self.stack.limits.require_room(tokens.shape[1])
        return self.stack(tokens, positions, masks, [(whole, None)])

    def ragged(
        self,
        sequences: Sequence[Int64[Tensor, " queries"]],
        caches: Sequence[Cache | None] | None = None,
        last: bool = False,
    ) -> list[Float[Tensor, "queries vocab"]]:
        """Logits of sequences of different lengths, without padding.

        The linear layers see one long row of tokens, attention sees each sequence by itself.

        Args:
            sequences: token ids, one tensor a sequence.
            caches: one `cache()` a sequence, or None.
            last: give only what follows the last token of each; a large vocabulary is large.
        """
        for tokens in sequences:
            require_tokens(tokens, 1)
        stops = list(accumulate(len(tokens) for tokens in sequences))
        where = [slice(i, j) for i, j in pairwise([0, *stops])]
        layout = list(zip(where, caches or [None] * len(where), strict=True))
        hidden = self.stack.step(torch.cat(list(sequences))[None], layout)
        if last:
            return list(self.logits(hidden[:, [stop - 1 for stop in stops]])[0].split(1))
        logits = self.logits(hidden)[0]
        return [logits[part] for part in where]

    def logits(
        self, hidden: Float[Tensor, "batch queries width"]
    ) -> Float[Tensor, "batch queries vocab"]:
        """The head: what `forward` makes of `hidden`."""
        return self.head(hidden, self.stack.embedding)

    def cache(self, rolling: bool = True) -> list[Growing | Rolling]:
        """An empty cache: one a layer, rolling where the layer's mask forgets.

        Args:
            rolling: False keeps everything, so that any `truncate` is possible.
        """
        return self.stack.cache(rolling)

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The mask of each layer, first to last."""
        return self.stack.masks

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(parameter.numel() for parameter in self.parameters())
