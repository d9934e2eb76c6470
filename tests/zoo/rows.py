"""Pads, packed documents, batch neighbours and earlier calls that move an output."""

import torch
from torch import nn
from torch.nn import functional as F

from hitherto.mask import Everything
from zoo.decoder import WIDTH, Attention, Decoder
from zoo.mixing import Mixer
from zoo.specimen import Specimen, thread


class PadsSeen(Attention):
    def visible(self, scene):
        scene.real = torch.ones_like(scene.real)
        return super().visible(scene)


class TwoWayPadsSeen(PadsSeen):
    """A two-way layer, so that pads on the right matter too."""

    def rule(self, q, k):
        return k <= k.max() + 0 * q


class PadsSeenAlone(Attention):
    """Hiding the pads is skipped as not needed when there is one row."""

    def visible(self, scene):
        scene.real = scene.real | (len(scene.real) == 1)
        return super().visible(scene)


class PadsCounted(Decoder):
    """Positions start in the pads."""

    def positions(self, real, document, seen):
        return super().positions(torch.ones_like(real), document, seen)


class PadsConvolved(nn.Module):
    """A causal convolution over tokens and pads alike."""

    def __init__(self, clean=False):
        super().__init__()
        self.conv, self.clean = nn.Conv1d(WIDTH, WIDTH, 3), clean

    def forward(self, x, scene, memory=None):
        x = x * scene.real[:, scene.q_slot, None] if self.clean else x
        return self.conv(F.pad(x.mT, (2, 0))).mT


class PadsTakeSeats(nn.Module):
    """An expert with 6 seats, given away in order; pads sit down first."""

    def __init__(self, clean=False):
        super().__init__()
        self.score, self.expert = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)
        self.clean = clean

    def forward(self, x, scene, memory=None):
        wants = self.score(x) > -1
        wants = wants & scene.real[..., None] if self.clean else wants
        return self.expert(x) * (wants & (wants.cumsum(1) <= 6))


class AcrossDocuments(Attention):
    def visible(self, scene):
        scene.document = torch.zeros_like(scene.document)
        return super().visible(scene)


class DocumentsClamped(Attention):
    """The mask was made 0 or 1 on its way: the third document merges with the second."""

    def visible(self, scene):
        scene.document = scene.document.clamp(max=1)
        return super().visible(scene)


class OneTokenDocuments(Attention):
    """A document begins where the position falls; after a document of one token it does not."""

    def visible(self, scene):
        falls = scene.position.diff(dim=1, prepend=scene.position[:, :1]) < 0
        scene.document = falls.cumsum(1)
        return super().visible(scene)


class PositionsRunOn(Decoder):
    """Documents are isolated, but the second starts where the first ended."""

    def positions(self, real, document, seen):
        return super().positions(real, torch.zeros_like(document), seen)


class FirstRowDocuments(Attention):
    """The documents of the first row are laid on all rows of the batch."""

    def visible(self, scene):
        scene.document = scene.document[:1].expand_as(scene.document)
        return super().visible(scene)


class MaskedUnpacked(Decoder):
    """A padding mask, even one of ones, takes the place of the documents."""

    def scene(self, tokens, real, owner, memory):
        return super().scene(tokens, real, owner if real is None else None, memory)


class ConvolvedDocuments(PadsConvolved):
    """The convolution reads over the edge of a document."""

    def __init__(self):
        super().__init__(clean=True)


class RowsMixed(Mixer):
    """A row takes a little of the row before it."""

    def mix(self, x):
        return x + 1e-3 * x.roll(1, 0)


class SeatsOfTheBatch(Mixer):
    """Seats are counted over the whole batch."""

    def __init__(self):
        super().__init__()
        self.score, self.expert = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)

    def mix(self, x):
        wants = (self.score(x) > 0).flatten(0, 1)
        kept = wants & (wants.cumsum(0) <= wants.numel() // 3)
        return self.expert(x) * kept.view(*x.shape[:2], 1)


class ScaleOfTheBatch(Mixer):
    """A detached scale over time would be a leak; over rows it mixes the batch."""

    def mix(self, x):
        return x / x[:, :1].abs().amax((0, 2), keepdim=True).detach()


class CallsCounted(Decoder):
    calls = 0

    def finish(self, x):
        self.calls += 1
        return super().finish(x) + 1e-3 * self.calls


class FourthCall(Decoder):
    calls = 0

    def finish(self, x):
        self.calls += 1
        return super().finish(x) * (1 if self.calls < 4 else 1.01)


class CarriesOver(Decoder):
    """The mean of the last call's input is added to this one's."""

    left = 0.0

    def stream(self, tokens):
        x = super().stream(tokens)
        x, self.left = x + self.left, x.mean((0, 1)).detach()
        return x


def second(mixer):
    return lambda: Decoder(Attention(), mixer())


_SECOND = {"module": "blocks.1.mix"}
_PADS = {"kind": "leak", "also": ("inconsistent",), "doors": ("padded",)}
_DOCUMENTS = {"kind": "leak", "also": ("inconsistent",), "doors": ("packed",)}
_BATCH = {"kind": "leak", "doors": ("batch",)}

SPECIMENS = (
    Specimen(name="pads seen", model=second(PadsSeen), **_PADS, **_SECOND),
    Specimen(
        name="pads seen on the right",
        model=lambda: Decoder(TwoWayPadsSeen(), TwoWayPadsSeen()),
        declared=Everything(),
        **_PADS,
    ),
    Specimen(
        name="pads seen in a single row",
        model=second(PadsSeenAlone),
        **_PADS,
        **_SECOND,
        source=thread("huggingface/transformers/pull/46773"),
    ),
    Specimen(
        name="positions count pads",
        model=lambda: PadsCounted(Attention(), Attention()),
        kind="inconsistent",
        also=("leak",),
        doors=("padded",),
        source=thread("huggingface/transformers/issues/18388"),
    ),
    Specimen(
        name="pads convolved",
        model=second(PadsConvolved),
        **_PADS,
        **_SECOND,
        source=thread("state-spaces/mamba/issues/66"),
    ),
    Specimen(
        name="pads take seats of an expert",
        model=second(PadsTakeSeats),
        kind="inconsistent",
        also=("leak",),
        doors=("padded",),
        **_SECOND,
        source=thread("NVIDIA/Megatron-LM/pull/5542"),
    ),
    Specimen(
        name="documents see each other",
        model=second(AcrossDocuments),
        **_DOCUMENTS,
        **_SECOND,
        source=thread("huggingface/trl/issues/784"),
    ),
    Specimen(
        name="document numbers clamped",
        model=second(DocumentsClamped),
        **_DOCUMENTS,
        **_SECOND,
        source=thread("allenai/open-instruct/issues/669"),
    ),
    Specimen(
        name="documents of one token not isolated",
        model=second(OneTokenDocuments),
        **_DOCUMENTS,
        **_SECOND,
    ),
    Specimen(
        name="positions run on over documents",
        model=lambda: PositionsRunOn(Attention(), Attention()),
        kind="inconsistent",
        doors=("packed",),
        source=thread("huggingface/nanoVLM/pull/204"),
    ),
    Specimen(
        name="documents of the first row for all rows",
        model=second(FirstRowDocuments),
        kind="inconsistent",
        also=("leak",),
        doors=("packed",),
        **_SECOND,
    ),
    Specimen(
        name="documents lost beside a mask of ones",
        model=lambda: MaskedUnpacked(Attention(), Attention()),
        kind="leak",
        also=("inconsistent",),
        doors=("packed_masked",),
        source=thread("huggingface/transformers/pull/46634"),
    ),
    Specimen(
        name="convolution over document edges",
        model=second(ConvolvedDocuments),
        **_DOCUMENTS,
        **_SECOND,
    ),
    Specimen(name="rows mixed", model=second(RowsMixed), **_BATCH, **_SECOND),
    Specimen(
        name="seats counted over the batch",
        model=second(SeatsOfTheBatch),
        **_BATCH,
        **_SECOND,
        source=thread("NVIDIA/Megatron-LM/pull/5542"),
    ),
    Specimen(name="scale taken over the batch", model=second(ScaleOfTheBatch), **_BATCH, **_SECOND),
    Specimen(
        name="calls counted",
        model=lambda: CallsCounted(Attention(), Attention()),
        kind="unstable",
        doors=("again",),
    ),
    Specimen(
        name="fourth call differs",
        model=lambda: FourthCall(Attention(), Attention()),
        kind="unstable",
        doors=("again",),
        source=thread("vllm-project/vllm/issues/53912"),
    ),
    Specimen(
        name="last call carries over",
        model=lambda: CarriesOver(Attention(), Attention()),
        kind="unstable",
        also=("leak",),
        doors=("again",),
    ),
)
