"""Encoder-decoders: the source may be seen whole by every target position, its pads by none."""

import torch
from torch import nn

from hitherto.mask import Causal, Everything, Window
from zoo.decoder import VOCAB, WIDTH, Attention, Block, Place, Scene
from zoo.specimen import Specimen, thread


class TwoWay(Attention):
    def rule(self, q, k):
        return k <= k.max() + 0 * q


class Cross(TwoWay):
    """Queries from the target, keys and values from the source."""

    def forward(self, x, scene, memory=None):
        states, source = scene.encoded
        q_slot = torch.arange(states.shape[1], states.shape[1] + x.shape[1])
        return self.attend(x, states, source, q_slot)

    def attend(self, x, states, source, q_slot):
        joined = torch.cat([states, x], 1)
        count = joined.shape[1]
        real = nn.functional.pad(source.real, (0, x.shape[1]), value=False)
        ones = torch.ones(len(x), count)
        scene = Scene(
            q_slot=torch.arange(count),
            k_slot=torch.arange(count),
            position=ones.cumsum(1),
            real=real,
            document=ones.long(),
            padded=source.padded,
            cached=False,
        )
        return super().forward(joined, scene)[:, q_slot]


class CrossTriangular(Cross):
    """The decoder's triangle is laid on the source's axis."""

    def visible(self, scene):
        start = int(scene.real[0].sum())
        order = scene.k_slot[None] <= scene.q_slot[:, None] - start
        return super().visible(scene) & order


class CrossWindow(Cross):
    """The decoder's window cuts the source."""

    def visible(self, scene):
        return super().visible(scene) & (scene.k_slot < 5)


class SourcePadsSeen(Cross):
    def attend(self, x, states, source, q_slot):
        source.real = torch.ones_like(source.real)
        return super().attend(x, states, source, q_slot)


class OneWay(Attention):
    """The encoder got the decoder's mask."""


class Apart(Attention):
    """An encoder that mixes nothing, so that a source position arrives by cross-attention alone."""

    def rule(self, q, k):
        return k == q


class Ahead(Attention):
    def rule(self, q, k):
        return k <= q + 1


class Translator(nn.Module):
    """Source ids and target ids to outputs at each target position."""

    def __init__(self, encoder=TwoWay, decoder=Attention, cross=Cross):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, WIDTH), Place()
        self.encoder = Block(encoder())
        self.decoder, self.crossing = Block(decoder()), Block(cross())
        self.read = nn.Linear(WIDTH, VOCAB)

    def scene(self, tokens, real=None):
        batch, length = tokens.shape
        ones = torch.ones(batch, length, dtype=torch.bool)
        slots = torch.arange(length)
        return Scene(
            q_slot=slots,
            k_slot=slots,
            position=slots.expand(batch, -1),
            real=ones if real is None else real,
            document=ones.long(),
            padded=real is not None,
            cached=False,
        )

    def encode(self, source, real=None):
        scene = self.scene(source, real)
        x = self.embed(source) + self.place(scene.position).to(self.read.weight.dtype)
        return self.encoder(x, scene, None), scene

    def forward(self, target, source, real=None):
        scene = self.scene(target)
        scene.encoded = self.encode(source, real)
        x = self.embed(target) + self.place(scene.position).to(self.read.weight.dtype)
        x = self.decoder(x, scene, None)
        return self.read(self.crossing(x, scene, None))


class AnswerInSource(Translator):
    """The target, pooled, is added to the source: what is to be said reaches every output."""

    def forward(self, target, source, real=None):
        self.pooled = self.embed(target).mean(1, keepdim=True)
        return super().forward(target, source, real)

    def encode(self, source, real=None):
        states, scene = super().encode(source, real)
        return states + getattr(self, "pooled", 0.0), scene


DECLARED = {"self": Causal(), "cross": Everything(), "encoder": Everything()}
_CROSS = {"declared": DECLARED, "doors": ("source",)}
_APART = {"declared": DECLARED | {"encoder": Window(width=1)}, "doors": ("source",)}

SPECIMENS = (
    Specimen(name="clean: encoder-decoder", model=Translator, **_CROSS),
    Specimen(
        name="clean: encoder that mixes nothing", model=lambda: Translator(encoder=Apart), **_APART
    ),
    Specimen(
        name="cross-attention on the wrong axis",
        model=lambda: Translator(encoder=Apart, cross=CrossTriangular),
        kind="blind",
        also=("inconsistent",),
        **_APART,
        source=thread("NVIDIA/TransformerEngine/issues/629"),
    ),
    Specimen(
        name="source cut by the decoder's window",
        model=lambda: Translator(encoder=Apart, cross=CrossWindow),
        kind="blind",
        **_APART,
        source=thread("huggingface/transformers/pull/46111"),
    ),
    Specimen(
        name="source pads seen",
        model=lambda: Translator(cross=SourcePadsSeen),
        kind="leak",
        also=("inconsistent",),
        **_CROSS,
    ),
    Specimen(
        name="encoder one-way", model=lambda: Translator(encoder=OneWay), kind="blind", **_CROSS
    ),
    Specimen(
        name="decoder peeks",
        model=lambda: Translator(decoder=Ahead),
        kind="leak",
        module="decoder.mix",
        **_CROSS,
    ),
    Specimen(name="answer in the source", model=AnswerInSource, kind="leak", **_CROSS),
)
