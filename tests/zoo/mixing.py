"""Mixers and statistics over time that read the future without any attention mask being wrong."""

import torch
from torch import nn
from torch.nn import functional as F

from hitherto.mask import Window
from zoo.decoder import CHANNELS, VOCAB, WIDTH, Attention, Decoder
from zoo.specimen import Specimen, thread


class Mixer(nn.Module):
    """A mixer that looks at the stream alone: `mix` takes (batch, length, width)."""

    def forward(self, x, scene, memory=None):
        return self.mix(x)


class BlockMean(Mixer):
    """Averages inside blocks of 8, the later half included."""

    def mix(self, x):
        parts = [part.mean(1, keepdim=True).expand_as(part) for part in x.split(8, 1)]
        return torch.cat(parts, 1)


class BlockMeanOfKeys(Attention):
    """The keys of a block are averaged before the scores are taken."""

    def place(self, heads, position):
        parts = [part.mean(2, keepdim=True).expand_as(part) for part in heads.split(8, 2)]
        return torch.cat(parts, 2)


class Spectral(Mixer):
    """A causal filter applied by FFT: without zeros behind the input it wraps around."""

    def __init__(self, padded):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(16, WIDTH) / 4)
        self.padded = padded

    def mix(self, x):
        length = x.shape[1]
        size = length + len(self.filter) if self.padded else length
        taps = torch.fft.rfft(self.filter[:size], n=size, dim=0)
        return torch.fft.irfft(torch.fft.rfft(x, n=size, dim=1) * taps, n=size, dim=1)[:, :length]


class Conv(Mixer):
    """A convolution over 3 steps with so many zeros before and after the input."""

    def __init__(self, before, after):
        super().__init__()
        self.conv, self.pad = nn.Conv1d(WIDTH, WIDTH, 3), (before, after)

    def mix(self, x):
        return self.conv(F.pad(x.mT, self.pad)).mT


class Strided(Mixer):
    """Steps of two, padded one too little on the left: step 0 reads step 1."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 2, stride=2)

    def mix(self, x):
        steps = self.conv(F.pad(x.mT, (0, x.shape[1] % 2)))
        return steps.repeat_interleave(2, -1)[..., : x.shape[1]].mT


class OverTime(Mixer):
    """A norm that takes its statistics over time."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def mix(self, x):
        return self.norm(x.mT).mT


class NormOverTime(Mixer):
    """Zero mean and unit variance over the whole sequence."""

    def mix(self, x):
        return (x - x.mean(1, keepdim=True)) / (x.std(1, correction=0, keepdim=True) + 1e-5)


class HardGate(Mixer):
    """Opens when the mean of the whole sequence is positive: no gradient tells of it."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(WIDTH, WIDTH)

    def mix(self, x):
        return self.lead(x) * (x.mean(1, keepdim=True) > 0)


class SeldomOpen(HardGate):
    """Opens only when one feature is high at most steps: never by a single input."""

    def mix(self, x):
        return self.lead(x) * (1 + (x[..., :1].mean(1, keepdim=True) > 0.9))


class GradientAlone(Mixer):
    """A straight-through term: nothing in the forward, a mean over time in the gradient."""

    def mix(self, x):
        mean = x.mean(1, keepdim=True)
        return x + (mean - mean.detach())


class ExpertChoice(Mixer):
    """An expert takes the half of the tokens that it scores highest, later ones included."""

    def __init__(self):
        super().__init__()
        self.score, self.expert = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)

    def mix(self, x):
        score = self.score(x)
        chosen = score >= score.median(1, keepdim=True).values
        return self.expert(x) * chosen


class Detached(Mixer):
    """A global scale outside the graph: dynamic quantisation by the largest value seen."""

    def mix(self, x):
        return x / x.abs().amax((1, 2), keepdim=True).detach()


class Faint(Mixer):
    """A mean over time, so small that a tolerance hides it."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def mix(self, x):
        return x + self.size * x.mean(1, keepdim=True)


class Cancelling(Decoder):
    """What the last token adds to one output it takes from another, so that sums see nothing."""

    def finish(self, x):
        out = super().finish(x)
        signs = torch.tensor([1, -1] + [0] * (out.shape[-1] - 2))
        return out + x[:, -1:, :1] * signs


class BothWays(Mixer):
    """A recurrent layer that also runs from the end, or only from there."""

    def __init__(self, flip, both=False):
        super().__init__()
        self.cell = nn.GRU(WIDTH, WIDTH // (1 + both), batch_first=True, bidirectional=both)
        self.flip = flip

    def mix(self, x):
        if self.flip:
            return self.cell(x.flip(1))[0].flip(1)
        return self.cell(x)[0]


class Sorted(Mixer):
    """Takes each token's rank in the whole sequence."""

    def mix(self, x):
        return x + x.argsort(1).argsort(1) / x.shape[1]


class MaxPool(Mixer):
    def mix(self, x):
        return F.max_pool1d(x.mT, 3, stride=1, padding=1).mT


class ChannelsFirst(nn.Module):
    """Floats (batch, channels, time), as convolutional models of sound take them."""

    time_axis = 2

    def __init__(self, before, after):
        super().__init__()
        self.conv, self.pad = nn.Conv1d(CHANNELS, WIDTH, 3), (before, after)
        self.read = nn.Conv1d(WIDTH, CHANNELS, 1)

    def forward(self, x):
        return self.read(self.conv(F.pad(x, self.pad)).relu())


def z_score(series):
    """Each series (batch, steps, channels) minus its mean, over its deviation: of all steps."""
    return (series - series.mean(1, keepdims=True)) / series.std(1, keepdims=True)


class FromTheEnd(Decoder):
    """Positions count back from the last token, so the length itself is a look ahead."""

    def positions(self, real, document, seen):
        return super().positions(real, document, seen).flip(1)


class EndSeen(Decoder):
    """Rows that hold the last id anywhere, as an end mark, are scaled."""

    def forward(self, tokens, **rest):
        ended = (tokens == VOCAB - 1).any(1)
        return super().forward(tokens, **rest) * (1 + 0.1 * ended[:, None, None])


class OneChannel(Decoder):
    """Only output 7 reads, and only channel 0 of it: the rest is clean."""

    def finish(self, x):
        out = super().finish(x).clone()
        if x.shape[1] > 9:
            out[:, 7, 0] += x[:, 9, 0]
        return out


def at_1(mixer):
    return lambda: Decoder(Attention(), mixer())


def _leak(name, mixer, module="blocks.1.mix", **rest):
    return Specimen(name=name, model=at_1(mixer), kind="leak", module=module, **rest)


_NANOCHAT = thread("karpathy/nanochat/issues/844")

SPECIMENS = (
    _leak("block mean", BlockMean, source=_NANOCHAT),
    _leak("block mean of keys", BlockMeanOfKeys, source=_NANOCHAT),
    _leak("FFT wraps around", lambda: Spectral(padded=False), source=_NANOCHAT),
    _leak("two-way convolution", lambda: Conv(1, 1), module="blocks.1.mix"),
    _leak("convolution all ahead", lambda: Conv(0, 2), module="blocks.1.mix"),
    _leak(
        "strided convolution one step early",
        Strided,
        source=thread("lucidrains/magvit2-pytorch/pull/27"),
    ),
    _leak(
        "batch norm in train",
        lambda: OverTime(nn.BatchNorm1d(WIDTH)),
        doors=("train",),
        module="blocks.1.mix.norm",
    ),
    _leak(
        "group norm over time",
        lambda: OverTime(nn.GroupNorm(2, WIDTH)),
        module="blocks.1.mix.norm",
        source=thread("huggingface/transformers/issues/21534"),
    ),
    _leak("norm over time", NormOverTime, source=thread("espnet/espnet/issues/5900")),
    _leak("hard gate on the mean", HardGate),
    _leak("hard gate that seldom opens", SeldomOpen, doors=("suffix",)),
    _leak("gradient alone crosses", GradientAlone, module=None, doors=("gradient",)),
    Specimen(
        name="end mark seen anywhere", model=lambda: EndSeen(Attention(), Attention()), kind="leak"
    ),
    _leak(
        "expert choice over the sequence", ExpertChoice, source=thread("piotrpiekos/MoSA/issues/3")
    ),
    _leak("detached global scale", Detached),
    _leak("faint mean, 3e-5", lambda: Faint(3e-5)),
    _leak("faint mean, 1e-6", lambda: Faint(1e-6)),
    Specimen(
        name="gradients cancel in a sum",
        model=lambda: Cancelling(Attention(), Attention()),
        kind="leak",
    ),
    _leak("recurrence reversed", lambda: BothWays(flip=True)),
    _leak(
        "recurrence both ways", lambda: BothWays(flip=False, both=True), module="blocks.1.mix.cell"
    ),
    _leak("rank in the sequence", Sorted),
    _leak("max pooling, centred", MaxPool),
    Specimen(
        name="positions count from the end",
        model=lambda: FromTheEnd(Attention(), Attention()),
        kind="leak",
        also=("inconsistent",),
        doors=("truncated",),
    ),
    Specimen(
        name="one channel of one output",
        model=lambda: OneChannel(Attention()),
        kind="leak",
        depth=1,
    ),
    Specimen(
        name="two-way convolution on floats",
        model=lambda: Decoder(Attention(), Conv(1, 1), floats=True),
        floats=True,
        kind="leak",
        module="blocks.1.mix",
    ),
    Specimen(
        name="hard gate on floats",
        model=lambda: Decoder(HardGate(), Attention(), floats=True),
        floats=True,
        kind="leak",
        module="blocks.0.mix",
    ),
    Specimen(
        name="two-way convolution, channels first",
        model=lambda: ChannelsFirst(1, 1),
        floats=True,
        kind="leak",
        also=("blind",),
        declared=Window(width=3),
        depth=1,
    ),
    Specimen(
        name="z-score of a whole series",
        model=lambda: z_score,
        floats=True,
        kind="leak",
        depth=1,
        source=thread("ArthurBernard/Fynance/pull/267"),
    ),
)
