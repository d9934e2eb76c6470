"""Does any output depend on a later input? Change the future and look at the past."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hitherto.audit.arrays import difference, grid, like, values
from hitherto.audit.check import Check, Pair
from hitherto.errors import ModelError, explain

_REASON = "same shapes and the same earlier tokens must give the same bits"


def causality(
    forward: Callable[[Any], Any],
    tokens: Any,
    *,
    vocab: int,
    cuts: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Check:
    """Check that output t depends on no input after t.

    Meaning: for each cut c, every token at a position >= c is replaced by another one, and the
    outputs at every position < c must stay bit-identical. The shapes never change, so on a
    deterministic model no tolerance is needed; the same call is made twice first, and when these
    two differ the verdict is "unstable".

    Args:
        forward: tokens (batch, positions) -> outputs (batch, positions, ...); numpy or torch.
        tokens: ints (batch, positions); `forward` gets the same kind of array.
        vocab: tokens are drawn from 0 .. vocab - 1; >= 2.
        cuts: how many cuts, evenly spread, the first and last position included; all positions
            from 1 on unless given.
        seed: of the replacement tokens.
        progress: called with (cuts done, cuts in all).

    Returns:
        A report; of a leak, `worst` is a pair that one change alone was seen to move.

    Raises:
        ModelError: tokens or outputs of another shape.
    Cost: one forward a cut, two more, and up to one a position to find the pair of a leak.
    """
    ints = grid(tokens)
    length = ints.shape[1]
    other = _replaced(ints, vocab, seed)
    before = _run(forward, tokens, ints)
    again = difference(before, _run(forward, tokens, ints))
    if again.any():
        return _unstable(again)
    chosen = _spread(length, cuts)
    largest, worst = 0.0, None
    for done, cut in enumerate(chosen, 1):
        changed = np.where(np.arange(length) >= cut, other, ints)
        gap = difference(before, _run(forward, tokens, changed))[:, :cut]
        if gap.max() > 0 and worst is None:
            worst = _pair(forward, tokens, ints, other, before, cut, gap)
        largest = max(largest, float(gap.max()))
        if progress:
            progress(done, len(chosen))
    return Check(
        check="causality",
        verdict="clean" if worst is None else "leak",
        largest=largest,
        budget=0.0,
        reason=_REASON,
        worst=worst,
        where=f"output {worst.query} changes with the input at {worst.key}" if worst else "",
        covered=(
            f"{len(chosen)} cuts of {length} positions, batch {len(ints)}",
            "the same call twice",
        ),
    )


def _replaced(ints: np.ndarray, vocab: int, seed: int) -> np.ndarray:
    """Draw another token for every position, never the one that stands there."""
    if vocab < 2 or ints.min() < 0 or ints.max() >= vocab:
        raise ModelError(
            explain("causality(vocab)", "must be 2 or more, and above every token",
                    f"{vocab} with tokens from {ints.min()} to {ints.max()}",
                    "pass the model's vocabulary size")
        )  # fmt: skip
    steps = np.random.default_rng(seed).integers(1, vocab, size=ints.shape)
    return (ints + steps) % vocab


def _run(forward: Callable[[Any], Any], tokens: Any, ints: np.ndarray) -> np.ndarray:
    output = values(forward(like(tokens, ints)))
    if output.shape[:2] != ints.shape:
        raise ModelError(
            explain("forward", f"must return outputs of shape {(*ints.shape, '...')}",
                    f"shape {output.shape}", "return the logits of every position")
        )  # fmt: skip
    return np.array(output)


def _spread(length: int, cuts: int | None) -> list[int]:
    """Return cut positions from 1 to length - 1: all, or so many spread evenly."""
    if cuts is not None and cuts < 1:
        raise ModelError(explain("causality(cuts)", "must be 1 or more", cuts, "use None for all"))
    count = length - 1 if cuts is None else min(cuts, length - 1)
    return sorted({round(c) for c in np.linspace(1, length - 1, count)})


def _pair(
    forward: Callable[[Any], Any],
    tokens: Any,
    ints: np.ndarray,
    other: np.ndarray,
    before: np.ndarray,
    cut: int,
    gap: np.ndarray,
) -> Pair:
    """Find one later input that alone moves an earlier output; the cut if none does alone."""
    for key in range(cut, ints.shape[1]):
        changed = ints.copy()
        changed[:, key] = other[:, key]
        alone = difference(before, _run(forward, tokens, changed))[:, :cut]
        if alone.max() > 0:
            return Pair(query=_last_moved(alone), key=key)
    return Pair(query=_last_moved(gap), key=cut)


def _last_moved(gap: np.ndarray) -> int:
    moved = gap.reshape(*gap.shape[:2], -1).max(axis=(0, 2)) > 0
    return int(np.flatnonzero(moved)[-1])


def _unstable(again: np.ndarray) -> Check:
    where = int(np.argmax(again.reshape(*again.shape[:2], -1).max(axis=(0, 2))))
    return Check(
        check="causality",
        verdict="unstable",
        largest=float(again.max()),
        budget=0.0,
        reason=_REASON,
        where=f"output {where} differs between two calls with the same tokens",
        covered=("the same call twice",),
    )
