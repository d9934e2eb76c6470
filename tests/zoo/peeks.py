"""Masks that let a position see its future, always or under one condition."""

import torch
from torch import nn

from zoo.decoder import WIDTH, Attention, Decoder
from zoo.specimen import Specimen, thread


class Peek(Attention):
    def rule(self, q, k):
        return k <= q + 1


class NoMask(Attention):
    def rule(self, q, k):
        return k <= k.max() + 0 * q


class FirstSeesLast(Attention):
    """One pair of the whole grid."""

    def rule(self, q, k):
        return (k <= q) | ((q == 0) & (k == k.max()))


class Inverted(Attention):
    def rule(self, q, k):
        return k > q


class AddedBool(Attention):
    """A bool mask added to the scores: a visible key gets one point more, and that is all."""

    def hide(self, scores, visible):
        return scores + visible


class QueryAxis(Attention):
    """Every weight is normalised with the scores of later queries."""

    def weigh(self, scores):
        return scores.softmax(-2)


class SoftFill(Attention):
    """A hidden key keeps a finite score: it hides only while scores are small."""

    fill = -50.0

    def hide(self, scores, visible):
        return torch.where(visible, scores, self.fill)


class FaintFill(SoftFill):
    """exp(-12) of each hidden key comes through."""

    fill = -12.0


class OwnNames(SoftFill):
    """The same, with projections that no naming habit finds."""

    def __init__(self):
        super().__init__()
        self.uno, self.due = self.query, self.key
        del self.query, self.key

    def forward(self, x, scene, memory=None):
        self.__dict__ |= {"query": self.uno, "key": self.due}  # read, not registered
        return super().forward(x, scene, memory)


class EvenWhenEmpty(Attention):
    """Strictly before: the first row has no key left, and a finite fill makes it see them all."""

    def rule(self, q, k):
        return k < q

    def hide(self, scores, visible):
        return torch.where(visible, scores, -1e9)


class GroupsOfFour(Attention):
    """The mask is applied once per four queries, so three of them see ahead."""

    def rule(self, q, k):
        return k <= q // 4 * 4 + 3


class BeyondTheChunk(Attention):
    """From slot 16 on, the second chunk is left unmasked."""

    def rule(self, q, k):
        return (k <= q) | (q >= 16)


class ShortUnmasked(Attention):
    """A sparse indexer masks only what is longer than its top-k."""

    def rule(self, q, k):
        return (k <= q) | (k.numel() <= 8)


class LongUnmasked(Attention):
    def rule(self, q, k):
        return (k <= q) | (k.numel() > 32)


class VeryLongUnmasked(Attention):
    """Beyond 100 slots, and no setting tells of it."""

    def rule(self, q, k):
        return (k <= q) | (q > 100)


class EvalOnly(Attention):
    def rule(self, q, k):
        return (k <= q) | (not self.training)


class TrainOnly(Attention):
    def rule(self, q, k):
        return (k <= q) | self.training


class WithDropoutOnly(Attention):
    def rule(self, q, k):
        return (k <= q) | (self.training and self.dropout.p > 0)


class WithoutPaddingOnly(Attention):
    """A shortcut leaves the mask to the kernel when nothing is padded, and the kernel forgets."""

    def visible(self, scene):
        see = super().visible(scene)
        return see if scene.padded else torch.ones_like(see)


class WithPaddingOnly(Attention):
    """The padding mask takes the place of the causal one."""

    def visible(self, scene):
        return scene.real[:, None] & (super().visible(scene) | scene.padded)


class BatchOfOne(Attention):
    def visible(self, scene):
        return super().visible(scene) | (len(scene.real) == 1)


class BatchOfMany(Attention):
    def visible(self, scene):
        return super().visible(scene) | (len(scene.real) > 1)


class HalfPrecision(Attention):
    """One kernel for each dtype; the 16-bit one masks by groups of four."""

    def visible(self, scene):
        see = super().visible(scene)
        if self.out.weight.dtype != torch.bfloat16:
            return see
        return see | (scene.k_slot <= scene.q_slot[:, None] // 4 * 4 + 3)


class WithMaps(Decoder):
    """Asking for attention maps takes another path, without a mask."""

    def forward(self, tokens, output_attentions=False, **rest):
        for block in self.blocks:
            block.mix.unmasked = output_attentions
        return super().forward(tokens, **rest)


class Compiled(Attention):
    """The compiled path has a mask of its own, one slot off."""

    def rule(self, q, k):
        return k <= q + torch.compiler.is_compiling()


class Baked(Attention):
    """An export writes the mask down for sixteen slots; later queries get the last row of it."""

    exported = False

    def rule(self, q, k):
        return k <= (q.clamp(max=15) if self.exported else q)


class MaybeUnmasked(Attention):
    unmasked = False

    def rule(self, q, k):
        return (k <= q) | self.unmasked


class TorchLayer(nn.Module):
    """torch's own encoder layer, whose caller accepted the causal flag and never passed it on."""

    def __init__(self, masked):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.masked = masked

    def forward(self, x, scene, memory=None):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.layer(x, src_mask=hidden if self.masked else None)


def at_1(mixer):
    """A decoder whose second layer is at fault."""
    return lambda: Decoder(Attention(), mixer())


_SECOND = {"kind": "leak", "module": "blocks.1.mix"}

SPECIMENS = (
    Specimen(name="future peek", model=at_1(Peek), **_SECOND),
    Specimen(
        name="no mask",
        model=at_1(NoMask),
        **_SECOND,
        source=thread("huggingface/transformers/issues/48745"),
    ),
    Specimen(name="first sees last", model=at_1(FirstSeesLast), **_SECOND),
    Specimen(
        name="polarity inverted",
        model=lambda: Decoder(Inverted(), Attention()),
        kind="leak",
        also=("blind",),
        module="blocks.0.mix",
        source=thread("huggingface/transformers/pull/38094"),
    ),
    Specimen(
        name="bool mask added to scores",
        model=at_1(AddedBool),
        **_SECOND,
        source=thread("vllm-project/speculators/pull/691"),
    ),
    Specimen(
        name="softmax over queries",
        model=at_1(QueryAxis),
        **_SECOND,
        source=thread("haohy/TCAN/issues/7"),
    ),
    Specimen(
        name="finite fill, seen when scores are large",
        model=at_1(SoftFill),
        **_SECOND,
        doors=("scaled",),
    ),
    Specimen(
        name="finite fill, projections with own names",
        model=at_1(OwnNames),
        **_SECOND,
        doors=("scaled",),
    ),
    Specimen(name="finite fill, faint", model=at_1(FaintFill), **_SECOND),
    Specimen(
        name="empty row sees evenly",
        model=at_1(EvenWhenEmpty),
        **_SECOND,
        source=thread("pytorch/pytorch/issues/41508"),
    ),
    Specimen(
        name="masked by groups of four",
        model=at_1(GroupsOfFour),
        **_SECOND,
        source=thread("pytorch/pytorch/issues/195910"),
    ),
    Specimen(
        name="beyond the chunk",
        model=lambda: Decoder(Attention(), BeyondTheChunk(), chunk_size=16),
        **_SECOND,
    ),
    Specimen(
        name="short input unmasked",
        model=lambda: Decoder(Attention(), ShortUnmasked(), index_topk=8),
        **_SECOND,
        source=thread("osaurus-ai/vmlx-swift/pull/429"),
    ),
    Specimen(
        name="long input unmasked",
        model=lambda: Decoder(Attention(), LongUnmasked(), max_cache_len=32),
        **_SECOND,
    ),
    Specimen(
        name="beyond a hundred slots", model=at_1(VeryLongUnmasked), **_SECOND, lengths=(7, 130)
    ),
    Specimen(
        name="unmasked in eval",
        model=at_1(EvalOnly),
        **_SECOND,
        source=thread("pytorch/pytorch/issues/96941"),
    ),
    Specimen(name="unmasked in train", model=at_1(TrainOnly), **_SECOND, doors=("train",)),
    Specimen(
        name="unmasked with dropout",
        model=lambda: Decoder(Attention(dropout=0.1), WithDropoutOnly(dropout=0.1)),
        **_SECOND,
        doors=("train",),
    ),
    Specimen(
        name="unmasked without padding",
        model=at_1(WithoutPaddingOnly),
        **_SECOND,
        source=thread("huggingface/transformers/issues/48748"),
    ),
    Specimen(
        name="unmasked with padding",
        model=at_1(WithPaddingOnly),
        **_SECOND,
        also=("inconsistent",),
        doors=("padded",),
    ),
    Specimen(
        name="unmasked in a batch of one", model=at_1(BatchOfOne), **_SECOND, doors=("batch",)
    ),
    Specimen(name="unmasked in a batch", model=at_1(BatchOfMany), **_SECOND, doors=("batch",)),
    Specimen(name="unmasked in 16 bits", model=at_1(HalfPrecision), **_SECOND, doors=("bfloat16",)),
    Specimen(
        name="unmasked when maps are asked for",
        model=lambda: WithMaps(Attention(), MaybeUnmasked()),
        **_SECOND,
        doors=("maps",),
        source=thread("huggingface/transformers/pull/30652"),
    ),
    Specimen(
        name="off by one when compiled",
        model=at_1(Compiled),
        **_SECOND,
        also=("inconsistent",),
        doors=("compiled",),
    ),
    Specimen(
        name="export with the mask of its own length",
        model=at_1(Baked),
        kind="inconsistent",
        doors=("exported",),
    ),
    Specimen(
        name="causal flag not passed on",
        model=lambda: Decoder(Attention(), TorchLayer(masked=False)),
        kind="leak",
        module="blocks.1.mix.layer",
        source=thread("keras-team/keras/issues/21284"),
    ),
)
