"""A step over cached layers that happens whole or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hitherto.errors import ModelError, explain
from hitherto.model.attention import Cache


@contextmanager
def all_or_nothing(caches: Sequence[Cache]) -> Iterator[None]:
    """Undo a step that an exception or Ctrl-C breaks off: every layer goes back to its start.

    The length is read once, here, outside the layers.

    Raises:
        ModelError: when the layers of a cache do not agree on where they are.
    """
    starts = [_agreed_length(cache) for cache in caches]
    try:
        yield
    except BaseException:
        for cache, start in zip(caches, starts, strict=True):
            for layer in cache:
                layer.truncate(start)
        raise


def _agreed_length(cache: Cache) -> int:
    lengths = sorted({layer.length for layer in cache})
    if len(lengths) != 1:
        raise ModelError(
            explain(
                "cache",
                "must have the same length in every layer",
                lengths,
                "append to it through the model only, or truncate every layer to the shortest",
            )
        )
    return lengths[0]
