"""Clean twins. Many look faulty: to call any of them faulty is a false alarm."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from hitherto.mask import BlockCausal, Causal, Chunks, Everything, Keys, Prefix, Queries, Window
from zoo import caches, mixing, rows
from zoo.caches import Rotary
from zoo.decoder import HEADS, VOCAB, WIDTH, Attention, Decoder
from zoo.mixing import Mixer
from zoo.peeks import TorchLayer
from zoo.specimen import Specimen, thread


class TwoWay(Attention):
    def rule(self, q, k):
        return k <= k.max() + 0 * q


class ImageBlock(Attention):
    """Slots 4 to 9 hold an image, whose parts see each other."""

    def rule(self, q, k):
        return (k <= q) | ((4 <= q) & (q < 10) & (4 <= k) & (k < 10))


class PrefixLM(Attention):
    def rule(self, q, k):
        return (k <= q) | (k < 6)


class Blockwise(Attention):
    def rule(self, q, k):
        return k // 8 <= q // 8


class Chunked(Attention):
    def rule(self, q, k):
        return (k <= q) & (k // 8 == q // 8)


class Alibi(Attention):
    """Distance from the query, as a bias; `shift` moves it by a constant: softmax cannot tell."""

    def __init__(self, shift=0):
        super().__init__()
        self.shift = shift

    def bias(self, scene):
        far = scene.k_slot[None] - scene.q_slot[:, None] + self.shift
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)[:, None, None]
        return (slopes * far).to(self.out.weight.dtype)


class KeyAlibi(Alibi):
    """The bias grows with the key's slot, pads counted: a constant a row, which softmax drops."""

    def bias(self, scene):
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)[:, None, None]
        return (slopes * scene.k_slot).to(self.out.weight.dtype)


class Sinks(Attention):
    """One is added under the fraction, so that a row may attend to nothing."""

    def weigh(self, scores):
        return F.pad(scores, (1, 0)).softmax(-1)[..., 1:]


class Capped(Attention):
    def hide(self, scores, visible):
        return super().hide(5 * (scores / 5).tanh(), visible)


class SafeFill(Attention):
    """The smallest float instead of -inf: the same, in rows that see something."""

    def hide(self, scores, visible):
        return torch.where(visible, scores, torch.finfo(scores.dtype).min)


class StrictlyBefore(Attention):
    """The first row sees no key and gets zeros; the stream beside it carries the token itself."""

    def rule(self, q, k):
        return k < q


class BatchSizedKernel(Attention):
    """Adds up in another order when the batch is larger, as kernels do."""

    def forward(self, x, scene, memory=None):
        out = super().forward(x, scene, memory)
        return out if len(x) == 1 else (out + 1.0) - 1.0


class StepSizedKernel(Attention):
    """Rounds differently for a single query, as a decode kernel does."""

    def forward(self, x, scene, memory=None):
        out = super().forward(x, scene, memory)
        return (out + 1.0) - 1.0 if x.shape[1] == 1 else out


class Noisy(Decoder):
    """A kernel with atomic adds: the last bits differ from call to call."""

    def __init__(self, *mixers):
        super().__init__(*mixers)
        self.noise = torch.Generator().manual_seed(0)

    def finish(self, x):
        out = super().finish(x)
        flips = torch.randint(2, out.shape, generator=self.noise)
        return out * (1 + torch.finfo(out.dtype).eps * flips)


class CountsQuietly(Decoder):
    """Counts its calls, and tells nobody."""

    calls = 0

    def finish(self, x):
        self.calls += 1
        return super().finish(x)


class RunningMean(Mixer):
    """A statistic over the past: legal, though it reduces over time."""

    def mix(self, x):
        counts = torch.arange(1, x.shape[1] + 1)[:, None].to(x.dtype)
        return x - x.cumsum(1) / counts


class RunningMax(Mixer):
    def mix(self, x):
        return x / x.abs().cummax(1).values.clamp(min=1e-3)


class TokenChoice(Mixer):
    """Each token takes the expert that it scores highest: a jump, but no look ahead."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def mix(self, x):
        chosen = F.one_hot(self.score(x).argmax(-1), 3).to(x.dtype)
        return sum(chosen[..., i, None] * expert(x) for i, expert in enumerate(self.experts))


class Decay(Mixer):
    """Linear attention with decay: a state that forgets, exactly."""

    def mix(self, x):
        state, out = torch.zeros_like(x[:, 0]), []
        for step in x.unbind(1):
            state = 0.9 * state + step
            out.append(state)
        return torch.stack(out, 1)


class Frozen(nn.BatchNorm1d):
    """Batch norm that stays in eval: a fixed scale and shift."""

    def train(self, mode=True):
        return super().train(False)


class Tuple(Decoder):
    def finish(self, x):
        return super().finish(x), x


class Dict(Decoder):
    def finish(self, x):
        return {"hidden": x, "logits": super().finish(x)}


def by_numpy(tokens):
    """No module at all: a running mean of embeddings, in numpy."""
    rng = np.random.default_rng(0)
    table, read = rng.normal(size=(VOCAB, 8)), rng.normal(size=(8, VOCAB))
    counts = np.arange(1, tokens.shape[1] + 1)[:, None]
    return np.tanh(table[tokens].cumsum(1) / counts) @ read


def z_score_so_far(series):
    """Each step minus the mean of the steps so far, over their deviation."""
    counts = np.arange(2, series.shape[1] + 2)[:, None]  # and one step of zeros before them
    mean = series.cumsum(1) / counts
    spread = (series**2).cumsum(1) / counts - mean**2
    return (series - mean) / np.sqrt(np.maximum(spread, 1e-3))


def by_numpy_ahead(tokens):
    """The same with the next token peeked at."""
    return by_numpy(np.concatenate([tokens[:, 1:], tokens[:, :1]], 1))


def of(*kinds, model=Decoder, **rest):
    return lambda: model(*(kind() for kind in kinds), **rest)


def clean(name, model, **rest):
    return Specimen(name=name, model=model, **rest)


_ALL = ("padded", "packed", "packed_masked", "resumed", "batch", "train", "exported")
_IMAGE = Queries(range(4, 10)) & Keys(range(4, 10))

SPECIMENS = (
    clean("decoder", of(Attention, Attention), doors=_ALL),
    clean(
        "decoder with dropout",
        lambda: Decoder(Attention(dropout=0.2), Attention(dropout=0.2)),
        doors=("train",),
    ),
    clean("decoder on floats", of(Attention, Attention, floats=True), floats=True),
    clean(
        "causal convolution, channels first",
        of(lambda: 2, lambda: 0, model=mixing.ChannelsFirst),
        floats=True,
        declared=Window(width=3),
        depth=1,
    ),
    clean("z-score of the past", lambda: z_score_so_far, floats=True, depth=1),
    clean("rotary", of(Rotary, Rotary), doors=_ALL),
    clean(
        "window",
        lambda: Decoder(Attention(5), Attention(5), sliding_window=5),
        declared=Window(width=5),
        doors=("padded", "packed", "packed_masked", "stages", "batch", "train", "exported"),
    ),
    clean("window, one layer", lambda: Decoder(Attention(5)), declared=Window(width=5), depth=1),
    clean("chunks", of(Chunked, Chunked), declared=Causal() & Chunks(size=8), doors=("stages",)),
    clean("blocks", of(Blockwise, Blockwise), declared=BlockCausal(size=8)),
    clean(
        "prefix",
        of(PrefixLM, PrefixLM),
        declared=Causal() | Prefix(length=6),
        source=thread("huggingface/transformers/pull/30967"),
    ),
    clean("image block", of(ImageBlock, ImageBlock), declared=Causal() | _IMAGE),
    clean("two-way, and said so", of(TwoWay, TwoWay), declared=Everything(), doors=("padded",)),
    clean("distance bias", of(Alibi, Alibi), doors=("stages", "padded")),
    clean(
        "distance bias by key alone",
        of(KeyAlibi, KeyAlibi),
        doors=("stages", "padded"),
        source=thread("PaddlePaddle/PaddleNLP/pull/6495"),
    ),
    clean(
        "distance bias, shifted",
        of(Alibi, lambda: Alibi(shift=1)),
        doors=("stages",),
        source=thread("vllm-project/vllm/pull/945"),
    ),
    clean("sinks", of(Sinks, Sinks), doors=("stages",)),
    clean("scores capped", of(Capped, Capped)),
    clean("smallest float as fill", of(SafeFill, SafeFill)),
    clean(
        "empty first row",
        of(StrictlyBefore, StrictlyBefore),
        declared=Causal() - Window(width=1),
    ),
    clean("torch's encoder layer with its mask", of(Attention, lambda: TorchLayer(masked=True))),
    clean("kernel chosen by batch size", of(Attention, BatchSizedKernel), doors=("batch",)),
    clean(
        "kernel chosen by query count",
        of(StepSizedKernel, StepSizedKernel),
        doors=("stages",),
        source=thread("huggingface/transformers/issues/25420"),
    ),
    clean(
        "last bits from call to call", of(Attention, Attention, model=Noisy), also=("undecided",)
    ),
    clean("counts its calls quietly", of(Attention, Attention, model=CountsQuietly)),
    clean("running mean", of(Attention, RunningMean)),
    clean("running maximum", of(Attention, RunningMax)),
    clean("experts chosen by token", of(Attention, TokenChoice)),
    clean("decaying state", of(Decay, Attention)),
    clean("recurrence", of(caches.Recurrent, Attention), doors=("stages",)),
    clean("causal convolution", of(Attention, caches.Conv), doors=("stages",)),
    clean(
        "causal convolution on floats",
        of(Attention, lambda: mixing.Conv(2, 0), floats=True),
        floats=True,
    ),
    clean("FFT with zeros behind", of(Attention, lambda: mixing.Spectral(padded=True))),
    clean("batch norm, frozen", of(Attention, lambda: mixing.OverTime(Frozen(WIDTH)))),
    clean(
        "convolution without pads",
        of(Attention, lambda: rows.PadsConvolved(clean=True)),
        doors=("padded",),
    ),
    clean(
        "seats without pads",
        of(Attention, lambda: rows.PadsTakeSeats(clean=True)),
        doors=("padded",),
    ),
    clean("spare slots hidden", of(Attention, Attention, model=caches.Static), doors=("stages",)),
    clean("one query unmasked", of(Attention, caches.UnmaskedStep), doors=("stages",)),
    clean("returns a tuple", of(Attention, Attention, model=Tuple)),
    clean("returns a dict", of(Attention, Attention, model=Dict)),
    clean("numpy function", lambda: by_numpy, depth=1),
    Specimen(
        name="numpy function that peeks", model=lambda: by_numpy_ahead, kind="leak", also=("blind",)
    ),
)
