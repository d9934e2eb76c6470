"""Does a model say the same in training, prefill, chunked prefill and decode?"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hitherto.audit.arrays import difference, grid, like, values
from hitherto.audit.check import Check
from hitherto.errors import ModelError, explain

_EPSILON = float(np.finfo(np.float32).eps)


def rounding_budget(logits: Any, exact: Any) -> tuple[float, str]:
    """Return how far two correct float32 runs may lie apart, and why.

    Meaning: each of two runs may err as much as the plain forward errs against float64, and both
    end in float32: twice that error, plus four units in the last place of the largest logit.

    Args:
        logits: the plain forward's outputs, in float32 or less.
        exact: the same outputs computed in float64.
    """
    plain, double = values(logits), values(exact)
    error = float(difference(plain, double).max())
    last_place = _EPSILON * float(np.abs(double).max())
    reason = f"2 x the forward's error against float64 ({error:.2g}) + 4 ulp"
    return 2 * error + 4 * last_place, reason


def agreement(
    forward: Callable[[Any], Any],
    start: Callable[[], Callable[[Any], Any]],
    tokens: Any,
    *,
    budget: tuple[float, str],
    cuts: Sequence[Sequence[int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Check:
    """Check that cached steps give the logits of the plain forward, however the tokens are cut.

    Meaning: for each way to cut the positions into pieces, a fresh session takes the pieces one
    after the other; all its outputs together must lie within the budget of `forward(tokens)`.
    Prefill is one piece, decode is pieces of one token. The first cutting runs twice and must give
    the same bits both times, else the verdict is "unstable".

    Args:
        forward: tokens (batch, positions) -> outputs (batch, positions, ...), as in training.
        start: opens a session: a function that takes the next tokens (batch, n) and returns their
            outputs (batch, n, ...), remembering what came before.
        tokens: ints (batch, positions).
        budget: largest difference that is rounding, in logits, and the reason for it: see
            `rounding_budget`.
        cuts: cuttings to try, each the increasing positions between pieces; prefill, decode, six
            chunk sizes and ragged pieces unless given.
        progress: called with (cuttings done, cuttings in all).

    Raises:
        ModelError: outputs of another shape, or cuts outside the tokens.
    Cost: one forward, and one pass over the tokens for each cutting; decode takes a call a token.
    """
    ints = grid(tokens)
    plain = values(forward(like(tokens, ints)))
    tried = _cuttings(ints.shape[1]) if cuts is None else [_named(c, ints.shape[1]) for c in cuts]
    first = _cached(start, tokens, ints, tried[0][1], plain.shape)
    again = difference(first, _cached(start, tokens, ints, tried[0][1], plain.shape))
    if again.any():
        return _report(
            "unstable", again, tried[0][0], budget, ["two sessions with the same tokens"]
        )
    largest, place, covered = np.zeros((1, 1)), "", []
    for done, (name, positions) in enumerate(tried, 1):
        gap = difference(plain, _cached(start, tokens, ints, positions, plain.shape))
        covered.append(f"{name}: {gap.max():.3g}")
        if gap.max() > largest.max():
            largest, place = gap, name
        if progress:
            progress(done, len(tried))
    verdict = "clean" if largest.max() <= budget[0] else "inconsistent"
    return _report(verdict, largest, place, budget, covered)


def _cuttings(length: int) -> list[tuple[str, list[int]]]:
    """Prefill, chunks of several sizes (primes and powers of two), ragged pieces, decode."""
    sizes = [size for size in (2, 7, 16, 31, 64, 128) if size < length]
    ragged = [c for c in (1, 2, 5, 14, 41, 122, 365, 1094) if c < length]
    return [
        ("prefill", []),
        *((f"chunks of {size}", list(range(size, length, size))) for size in sizes),
        ("ragged chunks", ragged),
        ("decode", list(range(1, length))),
    ]


def _named(positions: Sequence[int], length: int) -> tuple[str, list[int]]:
    inside = [0, *positions, length]
    if any(a >= b for a, b in pairwise(inside)):
        raise ModelError(
            explain("agreement(cuts)", f"must increase, from 1 to {length - 1}", list(positions),
                    "list the positions where a new piece begins")
        )  # fmt: skip
    return f"cut at {list(positions)}" if positions else "prefill", list(positions)


def _pieces(positions: Sequence[int], length: int) -> Iterator[slice]:
    edges = [0, *positions, length]
    return (slice(a, b) for a, b in pairwise(edges))


def _cached(
    start: Callable[[], Callable[[Any], Any]],
    tokens: Any,
    ints: np.ndarray,
    positions: Sequence[int],
    shape: tuple[int, ...],
) -> np.ndarray:
    """Run a fresh session over the pieces and join its outputs."""
    step = start()
    pieces = _pieces(positions, ints.shape[1])
    parts = [np.array(values(step(like(tokens, ints[:, piece])))) for piece in pieces]
    joined = np.concatenate(parts, axis=1)
    if joined.shape != shape:
        raise ModelError(
            explain("start", f"must open a session whose outputs join to shape {shape}",
                    f"shape {joined.shape}", "return the logits of every token of a piece")
        )  # fmt: skip
    return joined


def _report(
    verdict: str, gap: np.ndarray, name: str, budget: tuple[float, str], covered: list[str]
) -> Check:
    per_position = gap.reshape(*gap.shape[:2], -1).max(axis=(0, 2))
    worst = int(np.argmax(per_position))
    return Check(
        check="agreement",
        verdict=verdict,  # type: ignore[arg-type]
        largest=float(gap.max()),
        budget=budget[0],
        reason=budget[1],
        where=f"position {worst}, {name}" if gap.any() else "",
        covered=tuple(covered),
    )
