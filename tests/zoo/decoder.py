"""One clean decoder, small enough to read, with a hook at every place where a fault can sit.

A specimen swaps one mixer (attention, convolution, ...) or overrides one method, so that the fault
is one line and everything around it is known to be clean.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

VOCAB, WIDTH, HEADS = 17, 16, 2
CHANNELS = 6  # of the models that read floats instead of ids


@dataclass(kw_only=True)
class Scene:
    """Where the tokens of one call stand. A slot is a place in the cache, pads included."""

    q_slot: Tensor  # (queries,)
    k_slot: Tensor  # (keys,)
    position: Tensor  # (batch, queries): counts real tokens of the own document
    real: Tensor  # (batch, keys) bool
    document: Tensor  # (batch, keys) int
    padded: bool  # whether the caller gave a padding mask with a pad in it
    cached: bool  # whether the caller gave a memory


@dataclass
class Memory:
    """A cache: what each mixer keeps, and what the slots seen so far hold."""

    kept: dict = field(default_factory=dict)  # mixer -> (keys, values)
    real: Tensor | None = None
    document: Tensor | None = None

    @property
    def seen(self):
        return 0 if self.real is None else self.real.shape[1]

    def clear(self):
        """Make room for another request."""
        self.kept, self.real, self.document = {}, None, None
        return self

    def append(self, mixer, keys, values):
        if mixer in self.kept:
            keys = torch.cat([self.kept[mixer][0], keys], 2)
            values = torch.cat([self.kept[mixer][1], values], 2)
        self.kept[mixer] = keys, values
        return keys, values


class Attention(nn.Module):
    """Softmax attention: no later slot, at most `window` slots, own document, real keys only."""

    def __init__(self, window=None, dropout=0.0):
        super().__init__()
        self.window = window
        self.query, self.key, self.value, self.out = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)

    def rule(self, q, k):
        """Which slots may be seen, by order alone: q is (queries, 1), k is (1, keys)."""
        return (k <= q) if self.window is None else (k <= q) & (q - k < self.window)

    def visible(self, scene):
        """(batch, queries, keys) bool."""
        own = scene.document[:, scene.q_slot, None] == scene.document[:, None]
        order = self.rule(scene.q_slot[:, None], scene.k_slot[None])
        return order & own & scene.real[:, None]

    def place(self, heads, position):
        """Put a position into queries or keys; nothing here, rotary attention turns them."""
        return heads

    def bias(self, scene):
        return 0.0

    def hide(self, scores, visible):
        return torch.where(visible, scores, -torch.inf)

    def weigh(self, scores):
        """Softmax over the keys; a row with no key to see gets zeros."""
        top = scores.detach().amax(-1, keepdim=True).clamp(min=-1e30)
        weights = (scores - top).exp()
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)

    def forward(self, x, scene, memory=None):
        q, k, v = (
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        q, k = self.place(q, scene.position), self.place(k, scene.position)
        if memory is not None:
            k, v = memory.append(self, k, v)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + self.bias(scene)
        weights = self.weigh(self.hide(scores, self.visible(scene)[:, None]))
        return self.out((self.dropout(weights) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A mixer over time and a feed-forward, each behind a norm and added to the stream."""

    def __init__(self, mix):
        super().__init__()
        self.norm, self.mix, self.norm2 = nn.LayerNorm(WIDTH), mix, nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x, scene, memory):
        x = x + self.mix(self.norm(x), scene, memory)
        return x + self.feed(self.norm2(x))


class Place(nn.Module):
    """Sines and cosines of the position, added to the embedding."""

    def forward(self, position):
        turns = position[..., None] * 10 ** (-torch.arange(0, WIDTH // 2) / 4)
        return torch.cat([turns.sin(), turns.cos()], -1)


class Decoder(nn.Module):
    """Ids (batch, length), or floats (batch, length, CHANNELS), to outputs at each position.

    `forward` also takes `real` (batch, length), False at pads; `owner` (batch, length), the number
    of each token's document; and a `memory` that the call moves on.

    Args:
        mixers: one a block, called with (x, scene, memory).
        floats: whether the input is floats instead of ids.
        config: sizes the fault depends on, as a real model's config would say them.
    """

    memory = Memory  # what a session starts with

    def __init__(self, *mixers, floats=False, **config):
        super().__init__()
        self.embed = nn.Linear(CHANNELS, WIDTH) if floats else nn.Embedding(VOCAB, WIDTH)
        self.place = Place()
        self.blocks = nn.ModuleList(Block(mix) for mix in mixers)
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, CHANNELS if floats else VOCAB)
        self.config = config

    def positions(self, real, document, seen):
        """(batch, slots): how many real tokens of the own document stand before this one."""
        own = (document[:, :, None] == document[:, None]) & real[:, None]
        return (own.tril().sum(-1) - 1).clamp(min=0)

    def scene(self, tokens, real, owner, memory):
        batch, length = tokens.shape[:2]
        padded = real is not None and not bool(real.all())
        seen = memory.seen if memory is not None else 0
        ones = torch.ones(batch, length, dtype=torch.bool)
        real = ones if real is None else real
        document = ones.long() if owner is None else owner
        if memory is not None:
            if seen:
                real = torch.cat([memory.real, real], 1)
                document = torch.cat([memory.document, document], 1)
            memory.real, memory.document = real, document
        slots = torch.arange(seen + length)
        return Scene(
            q_slot=slots[seen:],
            k_slot=slots,
            position=self.positions(real, document, seen)[:, seen:],
            real=real,
            document=document,
            padded=padded,
            cached=memory is not None,
        )

    def stream(self, tokens):
        """Hook on the embedded input."""
        return self.embed(tokens)

    def finish(self, x):
        """Hook on the stream before it is read."""
        return self.read(self.norm(x))

    def forward(self, tokens, real=None, owner=None, memory=None):
        scene = self.scene(tokens, real, owner, memory)
        x = self.stream(tokens) + self.place(scene.position).to(self.norm.weight.dtype)
        for block in self.blocks:
            x = block(x, scene, memory)
        return self.finish(x)

    def generate(self, tokens, count):
        """The `count` tokens that score highest, one after the other, from a cache."""
        memory, chosen, piece = self.memory(), [], tokens
        for _ in range(count):
            piece = self(piece, memory=memory)[:, -1:].argmax(-1)
            chosen.append(piece)
        return torch.cat(chosen, 1)
