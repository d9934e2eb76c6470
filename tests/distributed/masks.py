"""Masks that the tests of this room share: large ones to plan, small ones to run."""

import numpy as np

from hitherto.mask import (
    Causal,
    Chunks,
    Keys,
    Mask,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Window,
)

MILLION = 1 << 20


def documents(total: int, seed: int = 0, spread: float = 1.0) -> Mask:
    """Return packed documents of log-normal lengths."""
    rng, lengths = np.random.default_rng(seed), []
    while (left := total - sum(lengths)) > 0:
        lengths.append(int(np.clip(rng.lognormal(7.5, spread), 1, left)))
    return Causal() & Segments.from_lengths(lengths)


LARGE: dict[str, Mask] = {
    "causal": Causal(),
    "window": Window(4096),
    "packed": documents(MILLION),
    "packed_unlike": documents(MILLION, 1, 2.0),
    "prefix": Causal() | Prefix(MILLION // 4),
    "sinks": Causal() & (Window(4096) | Prefix(4)),
    "big_bird": RandomBlocks(64, 3, 0) | Chunks(192) | Keys(range(128)) | Queries(range(128)),
}
