"""Windows, chunks and blocks with a wrong edge, and models that are blind to what they may see."""

from hitherto.mask import BlockCausal, Causal, Chunks, Keys, Prefix, Queries, Window
from zoo.decoder import Attention, Decoder
from zoo.specimen import Specimen, thread

WIDTH, SIZE = 5, 8


class OneWider(Attention):
    """The window of `q - w <= k`: w earlier keys and the query, w + 1 in all."""

    def rule(self, q, k):
        return (k <= q) & (q - k <= WIDTH)


class OneNarrower(Attention):
    def rule(self, q, k):
        return (k <= q) & (q - k < WIDTH - 1)


class PerChunk(Attention):
    """One key region for all rows of a chunk: the last rows of it see too much."""

    def rule(self, q, k):
        return (k <= q) & (k > q // SIZE * SIZE - WIDTH)


class Unwindowed(Attention):
    """The window never reached the kernel."""

    def rule(self, q, k):
        return k <= q


class TwoSided(Attention):
    """A window on its own is symmetric unless the causal flag is set too."""

    def rule(self, q, k):
        return (q - k).abs() < WIDTH


class ChunkEdge(Attention):
    """Chunks begin one slot late."""

    def rule(self, q, k):
        return (k <= q) & ((k - 1) // SIZE == (q - 1) // SIZE)


class BlockCrossed(Attention):
    """Blocks are two-way inside; here a block also sees the first slot of the next."""

    def rule(self, q, k):
        return k <= (q // SIZE + 1) * SIZE


class PrefixTooLong(Attention):
    def rule(self, q, k):
        return (k <= q) | (k < SIZE + 1)


class PrefixOneWay(Attention):
    """The two-way block never reached the attention."""

    def rule(self, q, k):
        return k <= q


class OnlyItself(Attention):
    """An additive mask read as keep flags hides all that is past."""

    def rule(self, q, k):
        return k == q


class NoFirst(Attention):
    def rule(self, q, k):
        return (k <= q) & ((k > 0) | (q == 0))


class NoRecent(Attention):
    """Strictly before: a query never sees itself; only the residual stream does."""

    def rule(self, q, k):
        return (k <= q) & ((q - k > 1) | (k == q))


class Forgets(Attention):
    """Keys more than 16 back are dropped although no window is declared."""

    def rule(self, q, k):
        return (k <= q) & (q - k < 16)


class EvenOnly(Attention):
    """Odd slots are never read: a stride slipped into the mask."""

    def rule(self, q, k):
        return (k <= q) & ((k % 2 == 0) | (k == q))


class MemoryOnly(Attention):
    """Everything is averaged into one constant: the values are multiplied by zero."""

    def weigh(self, scores):
        return super().weigh(scores) * 0.0


def between(q, k, a, b):
    """Whether query and key lie in [a, b)."""
    return (a <= q) & (q < b) & (a <= k) & (k < b)


class ImagesMixed(Attention):
    """Two images, each two-way inside; here the first also sees the second."""

    def rule(self, q, k):
        own = between(q, k, 2, 6) | between(q, k, 8, 12)
        return (k <= q) | own | ((2 <= q) & (q < 6) & (8 <= k) & (k < 12))


def image(a, b):
    return Queries(range(a, b)) & Keys(range(a, b))


def alone(mixer):
    """One layer, where the edge of a window shows at the output."""
    return lambda: Decoder(mixer(), sliding_window=WIDTH)


_ALONE = {"module": "blocks.0.mix", "depth": 1}

SPECIMENS = (
    Specimen(
        name="window one wider",
        model=alone(OneWider),
        kind="leak",
        declared=Window(width=WIDTH),
        **_ALONE,
        source=thread("huggingface/transformers/issues/39408"),
    ),
    Specimen(
        name="window one narrower",
        model=alone(OneNarrower),
        kind="blind",
        declared=Window(width=WIDTH),
        **_ALONE,
    ),
    Specimen(
        name="window one wider, second layer",
        model=lambda: Decoder(Attention(WIDTH), OneWider(), sliding_window=WIDTH),
        kind="leak",
        declared=Window(width=WIDTH),
        module="blocks.1.mix",
        source=thread("huggingface/transformers/pull/26792"),
    ),
    Specimen(
        name="window one narrower, second layer",
        model=lambda: Decoder(Attention(WIDTH), OneNarrower(), sliding_window=WIDTH),
        kind="blind",
        declared=Window(width=WIDTH),
        module="blocks.1.mix",
    ),
    Specimen(
        name="window per chunk",
        model=alone(PerChunk),
        kind="leak",
        declared=Window(width=WIDTH),
        **_ALONE,
        source=thread("pytorch/executorch/pull/21857"),
    ),
    Specimen(
        name="window never applied",
        model=alone(Unwindowed),
        kind="leak",
        declared=Window(width=WIDTH),
        **_ALONE,
        source=thread("unslothai/unsloth/pull/8253"),
    ),
    Specimen(
        name="window on both sides",
        model=alone(TwoSided),
        kind="leak",
        declared=Window(width=WIDTH),
        **_ALONE,
        source=thread("keras-team/keras/pull/22814"),
    ),
    Specimen(
        name="chunk edge one late",
        model=lambda: Decoder(ChunkEdge(), attention_chunk_size=SIZE),
        kind="leak",
        also=("blind",),
        declared=Causal() & Chunks(size=SIZE),
        **_ALONE,
        source=thread("huggingface/transformers/issues/37351"),
    ),
    Specimen(
        name="block sees into the next",
        model=lambda: Decoder(BlockCrossed(), block_size=SIZE),
        kind="leak",
        declared=BlockCausal(size=SIZE),
        **_ALONE,
    ),
    Specimen(
        name="prefix one too long",
        model=lambda: Decoder(PrefixTooLong(), prefix=SIZE),
        kind="leak",
        declared=Causal() | Prefix(length=SIZE),
        **_ALONE,
        source=thread("huggingface/transformers/pull/30967"),
    ),
    Specimen(
        name="prefix measured one-way",
        model=lambda: Decoder(PrefixOneWay(), PrefixOneWay(), prefix=SIZE),
        kind="blind",
        declared=Causal() | Prefix(length=SIZE),
        source=thread("huggingface/transformers/issues/39389"),
    ),
    Specimen(
        name="one image sees the next",
        model=lambda: Decoder(ImagesMixed()),
        kind="leak",
        declared=Causal() | image(2, 6) | image(8, 12),
        **_ALONE,
    ),
    Specimen(
        name="window in the wrong layers",
        model=lambda: Decoder(Attention(), Attention(WIDTH), sliding_window=WIDTH),
        kind="leak",
        also=("blind",),
        declared=(Window(width=WIDTH), Causal()),
        module="blocks.0.mix",
        doors=("layers",),
        source=thread("huggingface/transformers/issues/35896"),
    ),
    Specimen(
        name="attends only to itself",
        model=lambda: Decoder(OnlyItself(), OnlyItself()),
        kind="blind",
        source=thread("harvard-edge/cs249r_book/pull/1785"),
    ),
    Specimen(
        name="first token invisible",
        model=lambda: Decoder(NoFirst(), NoFirst()),
        kind="blind",
    ),
    Specimen(
        name="last token but one invisible",
        model=lambda: Decoder(NoRecent()),
        kind="blind",
        **_ALONE,
    ),
    Specimen(
        name="forgets after sixteen",
        model=lambda: Decoder(Forgets()),
        kind="blind",
        **_ALONE,
    ),
    Specimen(
        name="odd slots invisible", model=lambda: Decoder(EvenOnly(), EvenOnly()), kind="blind"
    ),
    Specimen(
        name="attention multiplied by zero",
        model=lambda: Decoder(MemoryOnly(), MemoryOnly()),
        kind="blind",
    ),
)
