"""Models whose plain forward is right and whose cached steps are not."""

import torch
from torch import nn

from hitherto.mask import Causal, Chunks, Window
from zoo.decoder import WIDTH, Attention, Decoder, Memory
from zoo.specimen import Specimen, thread

SPAN, SIZE = 5, 8


def start_of(q):
    """First slot of this call: queries are the last slots."""
    return q.min()


class SlotsLate(Decoder):
    """After the first piece every position is one too low."""

    def positions(self, real, document, seen):
        return super().positions(real, document, seen) - int(seen > 0)


class LocalPositions(Decoder):
    """Every piece counts from 0 again."""

    def positions(self, real, document, seen):
        places = super().positions(real, document, seen)
        return places - places[:, seen : seen + 1]


class Rotary(Attention):
    """Turns pairs of features by the position."""

    def place(self, heads, position):
        a, b = heads.chunk(2, -1)
        turn = position[:, None, :, None] * 10.0 ** -torch.arange(a.shape[-1])
        turn = turn.to(heads.dtype)
        return torch.cat([a * turn.cos() - b * turn.sin(), a * turn.sin() + b * turn.cos()], -1)


class RotaryLocal(Rotary):
    """A cached step turns from 0 again."""

    def place(self, heads, position):
        return super().place(heads, position - position[:, :1])


class TopLeft(Attention):
    """The triangle sits in the upper left corner: a decode step sees key 0 alone."""

    def rule(self, q, k):
        return k <= q - start_of(q)


class PromptHidden(Attention):
    """A step of several tokens sees itself and not the prompt."""

    def rule(self, q, k):
        hidden = (k < start_of(q)) & (q.numel() > 1)
        return (k <= q) & ~hidden


class LocalWindow(Attention):
    """The window is measured from the row's number in this piece."""

    def rule(self, q, k):
        row = q - start_of(q) if q.numel() > 1 else q
        return (k <= q) & (row - k < SPAN)


class OneMaskForAll(Attention):
    """All rows of a piece get the mask of its last row, once something is cached."""

    def rule(self, q, k):
        return (k <= q) | ((k <= q.max()) & (start_of(q) > 0))


class UnmaskedPrefill(Attention):
    """The mask is made only when no cache is passed."""

    def visible(self, scene):
        first = scene.cached and scene.q_slot[0] == 0
        return super().visible(scene) | first


class DecodeWider(Attention):
    """The ring keeps one key more than the prefill's mask admits."""

    def rule(self, q, k):
        return (k <= q) & (q - k < SPAN + (start_of(q) > 0))


class DecodeNarrower(Attention):
    def rule(self, q, k):
        return (k <= q) & (q - k < SPAN - (start_of(q) > 0).long())


class ChunkOffset(Attention):
    """Decode finds the chunk's edge one slot late."""

    def rule(self, q, k):
        late = (start_of(q) > 0).long()
        return (k <= q) & (k // SIZE == (q - late).clamp(min=0) // SIZE)


class FirstKeyLost(Attention):
    """A ring overwrites its oldest slot as soon as anything is appended."""

    def rule(self, q, k):
        return (k <= q) & ((k > 0) | (start_of(q) == 0))


class UnmaskedStep(Attention):
    """One query needs no mask, it is said: true, until the cache has slots not written yet."""

    def rule(self, q, k):
        return (k <= q) | (q.numel() == 1)


class StaticMemory(Memory):
    """Hands out eight slots more than were written, with whatever stands there."""

    filled = 1.0

    def append(self, mixer, keys, values):
        keys, values = super().append(mixer, keys, values)
        spare = torch.full_like(keys[:, :, :1], self.filled).expand(-1, -1, 8, -1)
        return torch.cat([keys, spare], 2), torch.cat([values, spare], 2)


class Static(Decoder):
    """A decoder with a cache of fixed size, so that there are more keys than tokens."""

    memory = StaticMemory

    def scene(self, tokens, real, owner, memory):
        scene = super().scene(tokens, real, owner, memory)
        if memory is not None:
            scene.k_slot = torch.arange(len(scene.k_slot) + 8)
            scene.real = torch.nn.functional.pad(scene.real, (0, 8), value=True)
            scene.document = torch.nn.functional.pad(scene.document, (0, 8), value=1)
        return scene


class FirstTokenUnwritten(Memory):
    """A first call with one token is not stored, and zeros stand in its place."""

    def append(self, mixer, keys, values):
        both = super().append(mixer, keys, values)
        if both[0].shape[2] == 1:
            self.kept[mixer] = tuple(torch.zeros_like(part) for part in both)
        return both


class UnwrittenFirst(Decoder):
    memory = FirstTokenUnwritten


class HalfCleared(Memory):
    """Clearing forgets the length and keeps the state."""

    def clear(self):
        self.real, self.document = None, None
        return self


class Uncleared(Decoder):
    memory = HalfCleared


class GeneratesTwice(Decoder):
    """Generation feeds the last token of the prompt a second time."""

    def generate(self, tokens, count):
        return super().generate(torch.cat([tokens, tokens[:, -1:]], 1), count)


class PadsForgotten(Decoder):
    """A prompt hides its own pads; what the cache keeps of them is seen by every later step."""

    def scene(self, tokens, real, owner, memory):
        scene = super().scene(tokens, real, owner, memory)
        if memory is not None:
            memory.real = torch.ones_like(memory.real)
        return scene


class StepsCountPads(Decoder):
    """Steps take their positions from the length of the cache, pads included."""

    def positions(self, real, document, seen):
        places = super().positions(real, document, seen)
        return places if not seen else torch.arange(real.shape[1]).expand_as(places)


class OneForAll(Decoder):
    """Every session goes on in the cache of the one before."""

    def memory(self):
        self.shared = getattr(self, "shared", None) or Memory()
        return self.shared


class Conv(nn.Module):
    """A causal convolution that keeps its last two inputs; `forget` drops them."""

    def __init__(self, forget=False):
        super().__init__()
        self.conv, self.forget = nn.Conv1d(WIDTH, WIDTH, 3), forget

    def forward(self, x, scene, memory=None):
        past = torch.zeros_like(x[:, :1]).expand(-1, 2, -1)
        if memory is not None:
            past = memory.kept.get(self, past)
            memory.kept[self] = torch.cat([past, x], 1)[:, -2:] * (1 - self.forget)
        return self.conv(torch.cat([past, x], 1).mT).mT


class Recurrent(nn.Module):
    """A GRU that hands its state on; `slip` hands on the state before the last token."""

    def __init__(self, slip=False):
        super().__init__()
        self.cell, self.slip = nn.GRU(WIDTH, WIDTH, batch_first=True), slip

    def forward(self, x, scene, memory=None):
        state = None if memory is None else memory.kept.get(self)
        out, last = self.cell(x, state)
        if memory is not None:
            memory.kept[self] = (
                out[:, -2:-1].transpose(0, 1) if self.slip and x.shape[1] > 1 else last
            )
        return out


def second(mixer):
    return lambda: Decoder(Attention(), mixer())


_STEPS = {"kind": "inconsistent", "doors": ("stages",)}
_LATER = {**_STEPS, "module": "blocks.1.mix"}
_WINDOW = {**_LATER, "declared": Window(width=SPAN)}


def windowed(mixer):
    return lambda: Decoder(Attention(SPAN), mixer(), sliding_window=SPAN)


SPECIMENS = (
    Specimen(
        name="cache position off by one",
        model=lambda: SlotsLate(Attention(), Attention()),
        **_STEPS,
    ),
    Specimen(
        name="positions start again in decode",
        model=lambda: LocalPositions(Attention(), Attention()),
        **_STEPS,
        source=thread("lucidrains/x-transformers/issues/187"),
    ),
    Specimen(
        name="rotary from local positions",
        model=lambda: Decoder(Rotary(), RotaryLocal()),
        **_LATER,
        source=thread("lucidrains/x-transformers/issues/187"),
    ),
    Specimen(
        name="triangle in the upper left",
        model=second(TopLeft),
        **_LATER,
        source=thread("pytorch/pytorch/issues/108108"),
    ),
    Specimen(
        name="prompt hidden from a step of several",
        model=second(PromptHidden),
        **_LATER,
        source=thread("hyprstream/hyprstream/pull/1521"),
    ),
    Specimen(
        name="window from local rows",
        model=windowed(LocalWindow),
        **_WINDOW,
        source=thread("trymirai/lalamo/pull/200"),
    ),
    Specimen(
        name="one mask for all rows of a piece",
        model=second(OneMaskForAll),
        **_LATER,
        source=thread("pytorch/executorch/pull/21857"),
    ),
    Specimen(
        name="prefill unmasked when cached",
        model=second(UnmaskedPrefill),
        **_LATER,
        source=thread("Mikyx-1/TinyLLM/issues/17"),
    ),
    Specimen(
        name="decode sees one more than the window",
        model=windowed(DecodeWider),
        **_WINDOW,
        source=thread("ml-explore/mlx-lm/pull/390"),
    ),
    Specimen(
        name="decode sees one less than the window", model=windowed(DecodeNarrower), **_WINDOW
    ),
    Specimen(
        name="chunk edge late in decode",
        model=lambda: Decoder(ChunkOffset(), ChunkOffset(), attention_chunk_size=SIZE),
        **_STEPS,
        declared=Causal() & Chunks(size=SIZE),
        source=thread("huggingface/transformers/pull/37414"),
    ),
    Specimen(name="first key lost from the cache", model=second(FirstKeyLost), **_LATER),
    Specimen(
        name="unwritten slots seen",
        model=lambda: Static(Attention(), UnmaskedStep()),
        **_LATER,
        source=thread("onnx/onnx/pull/8068"),
    ),
    Specimen(
        name="first token not written",
        model=lambda: UnwrittenFirst(Attention(), Attention()),
        **_STEPS,
        source=thread("fla-org/flash-linear-attention/pull/1246"),
    ),
    Specimen(
        name="sessions share one cache",
        model=lambda: OneForAll(Attention(), Attention()),
        **_STEPS,
        also=("unstable", "broken"),
        source=thread("huggingface/transformers/pull/46446"),
    ),
    Specimen(
        name="cleared cache keeps its state",
        model=lambda: Uncleared(Recurrent(), Recurrent()),
        **_STEPS,
        also=("unstable",),
    ),
    Specimen(
        name="pads of a prompt seen by later steps",
        model=lambda: PadsForgotten(Attention(), Attention()),
        kind="leak",
        also=("inconsistent",),
        doors=("resumed",),
        source=thread("huggingface/transformers/issues/48256"),
    ),
    Specimen(
        name="steps count the pads of the prompt",
        model=lambda: StepsCountPads(Attention(), Attention()),
        kind="inconsistent",
        doors=("resumed",),
        source=thread("huggingface/transformers/issues/48256"),
    ),
    Specimen(
        name="window counts the pads behind a prompt",
        model=windowed(lambda: Attention(SPAN)),
        kind="inconsistent",
        declared=Window(width=SPAN),
        doors=("resumed",),
    ),
    Specimen(
        name="generation feeds a token twice",
        model=lambda: GeneratesTwice(Attention(), Attention()),
        **_STEPS,
    ),
    Specimen(
        name="convolution forgets its inputs", model=second(lambda: Conv(forget=True)), **_LATER
    ),
    Specimen(
        name="state of the token before", model=second(lambda: Recurrent(slip=True)), **_LATER
    ),
)
