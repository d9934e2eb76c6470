"""Masks that need nothing but the two positions."""

from hitherto.errors import MaskError, explain
from hitherto.mask.expression import _Leaf, node, require_int


@node
class Everything(_Leaf):
    """Every query may attend to every key."""


@node
class Nothing(_Leaf):
    """No query may attend to any key."""


@node
class Causal(_Leaf):
    """A query sees itself and what came before.

    Meaning: `k <= q`.

          0 1 2 3 4 5
        3 # # # # . .
        4 # # # # # .
    """


@node
class Window(_Leaf):
    """A query sees itself and the `width - 1` keys before it: at most `width` keys.

    Meaning: `0 <= q - k < width`. Causal by itself. For `Window(3)`:

          0 1 2 3 4 5
        3 . # # # . .
        4 . . # # # .

    Args:
        width: keys seen, the query's own included; >= 1.
    """

    width: int

    def __post_init__(self) -> None:
        require_int("Window.width", self.width, 1, "use Nothing() to hide every key")


@node
class Band(_Leaf):
    """A query sees from `before` keys back to `after` keys ahead, both ends included.

    Meaning: `q - before <= k <= q + after`; None = no limit. For `Band(1, 2)`:

          0 1 2 3 4 5
        1 # # # # . .
        2 . # # # # .

    Args:
        before: distance back; negative means strictly ahead; None = from the first key.
        after: distance ahead; negative means strictly before; None = to the last key.
    """

    before: int | None
    after: int | None

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            if getattr(self, name) is not None:
                require_int(f"Band.{name}", getattr(self, name), fix="use None for no limit")
        if self.before is not None and self.after is not None and self.before + self.after < 0:
            raise MaskError(
                explain(
                    "Band",
                    "must have before + after >= 0",
                    f"before={self.before}, after={self.after}",
                    "use Nothing() to hide every key",
                )
            )


@node
class Prefix(_Leaf):
    """The first `length` keys, for every query.

    Meaning: `k < length`. Prefix-LM is `Causal() | Prefix(n)`; attention sinks are
    `Causal() & (Window(w) | Prefix(4))`.
    """

    length: int

    def __post_init__(self) -> None:
        require_int("Prefix.length", self.length, 0)


@node
class Chunks(_Leaf):
    """Query and key lie in the same chunk of `size` positions.

    Meaning: `(q - start) // size == (k - start) // size`. Llama 4 chunked attention is
    `Causal() & Chunks(8192)`; `start` moves with left padding.

    Args:
        size: positions in a chunk; >= 1.
        start: where a chunk begins; any int.
    """

    size: int
    start: int = 0

    def __post_init__(self) -> None:
        require_int("Chunks.size", self.size, 1)
        require_int("Chunks.start", self.start)


@node
class BlockCausal(_Leaf):
    """The key's block is the query's or an earlier one.

    Meaning: `k // size <= q // size`.
    """

    size: int

    def __post_init__(self) -> None:
        require_int("BlockCausal.size", self.size, 1)


@node
class Dilated(_Leaf):
    """A window with gaps: `width` keys, each `step` before the last, the query first.

    Meaning: `q - k` in `{0, step, ..., (width - 1) * step}`. `Dilated(w, 1)` is `Window(w)`.
    """

    width: int
    step: int

    def __post_init__(self) -> None:
        require_int("Dilated.width", self.width, 1, "use Nothing() to hide every key")
        require_int("Dilated.step", self.step, 1)


@node
class Strided(_Leaf):
    """Every `step`-th key, counted from the query in both directions.

    Meaning: `(q - k) % step == 0`.
    """

    step: int

    def __post_init__(self) -> None:
        require_int("Strided.step", self.step, 1)


@node
class RandomBlocks(_Leaf):
    """Each query block sees `count` blocks drawn among its own and the earlier ones.

    Meaning: `k // block` is in the draw of `n = q // block`. The draw is `count` distinct blocks
    of `0..n` (all of them when `count > n`), by Floyd's method: for `i = 0 .. count - 1`, with
    `j = n + 1 - count + i`, take `t = r(i) % (j + 1)`; add t, or j when t is in the draw already.
    `r(i)` is the splitmix64 finaliser of `seed * A + n * B + i * C` modulo 2**64, where
    `A, B, C = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9`: a counter, not a state,
    so the draw does not depend on the length. Positions below 0 see and are seen by nothing.

    Args:
        block: positions in a block; >= 1.
        count: blocks drawn for each query block; >= 0.
        seed: any int >= 0.

    Source: random attention of BigBird, https://arxiv.org/abs/2007.14062
    """

    block: int
    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("RandomBlocks.block", self.block, 1)
        require_int("RandomBlocks.count", self.count, 0)
        require_int("RandomBlocks.seed", self.seed, 0)
