"""Guess why: from the shape of the difference between the measured and the declared map."""

import re

import numpy as np

from hitherto.audit.subject import Array

ATTENTION = re.compile(r"attention|attn|mha\b|transformer", re.I)
POOLING = re.compile(r"norm|pool|mean|statistic|squeeze|excit", re.I)
CONVOLUTION = re.compile(r"conv", re.I)
ROUTING = re.compile(r"rout|expert|moe|gate\b|topk|switch|mixtureof", re.I)
SPECTRAL = re.compile(r"fft|fourier|spectr|hyena|roll|shift", re.I)
SCORES = re.compile(
    r"(^|[._])(q|k|qk|qkv|kv|wq|wk|wqkv|query|key|queries|keys|q_?proj|k_?proj|qkv_proj|to_qkv?|"
    r"to_kv?|query_key_value|query_key|c_attn|in_proj(_weight)?|q_norm|k_norm|q_lin|k_lin|"
    r"query_proj|key_proj|att_proj|wq_?b|wk_?b)$",
    re.I,
)
"""Weights that make queries and keys."""

Guess = tuple[str, str]
"""(cause, detail)."""


def of_leak(sizes: Array, reach: Array, module: str | None, attends: bool = False) -> Guess:
    """Name the likely cause of a leak.

    Args:
        sizes: measured map (queries, keys): how far input k alone moves output q.
        reach: what may matter, bool.
        module: name of the module at fault, if known.
        attends: whether it is an attention by its weights, whatever its name.
    """
    seen = sizes > 0
    leak = seen & ~reach
    length = len(reach)
    future = leak & ~np.tri(length, reach.shape[1], dtype=bool)
    last = (module or "").split("(")[-1] + (" attention" if attends else "")
    if not leak.any():
        return "unexplained", "only several inputs together move it"
    if ROUTING.search(module or ""):
        return "routing over the sequence", _count(leak)
    if "softmax" in last.lower():
        return "softmax over the wrong axis", _count(leak)
    if _inverted(seen, reach, future):
        return "polarity", "hardly any earlier input moves an output, later ones do"
    if not future.any():
        return _past(leak, seen, reach)
    return (
        _ahead(future, last)
        or _block(future)
        or _wrap(future)
        or _full(sizes, future, reach, last)
        or ("wrong mask" if ATTENTION.search(last) else "unexplained", _count(leak))
    )


def _inverted(seen: Array, reach: Array, future: Array) -> bool:
    """Most of what may be seen is hidden, and most of what may not is seen."""
    earlier = reach & np.tri(*reach.shape, k=-1, dtype=bool)
    if not future.any() or not earlier.any():
        return False
    later = ~reach & ~np.tri(*reach.shape, dtype=bool)
    return bool((seen & earlier).sum() < 0.3 * earlier.sum() and future.sum() > 0.7 * later.sum())


def _count(leak: Array) -> str:
    q, k = np.argwhere(leak)[0]
    return f"{int(leak.sum())} hidden pairs move, first: output {q} by input {k}"


def _past(leak: Array, seen: Array, reach: Array) -> Guess:
    back = np.subtract.outer(np.arange(len(leak)), np.arange(leak.shape[1]))
    measured, declared = (int(back[grid].max()) + 1 for grid in (seen, reach))
    wider = (leak == ((back >= declared) & (back < measured))).all()
    if wider and measured == len(leak) and measured > declared + 1:
        return "window dropped", f"all {measured} earlier keys measured, {declared} declared"
    if wider:
        return "window counts more keys", f"window of {measured} keys measured, {declared} declared"
    return "wrong mask", _count(leak)


def _ahead(future: Array, last: str) -> Guess | None:
    """All outputs see the same few inputs ahead of them."""
    length = len(future)
    ahead = np.subtract.outer(np.arange(length), np.arange(length)) * -1
    n = int(ahead[future].max())
    offsets = np.unique(ahead[future])
    if n > max(length // 4, 1) or not (future == np.isin(ahead, offsets)).all():
        return None
    detail = f"every output sees {n} position{'s' * (n > 1)} ahead"
    if CONVOLUTION.search(last) or (n > 1 and not ATTENTION.search(last)):
        return "convolution reaches ahead", detail
    return ("off by one" if n == 1 else "wrong mask"), detail


def _block(future: Array) -> Guess | None:
    """The future seen ends where a block ends."""
    length = len(future)
    rows = np.arange(length)
    ends = np.where(future.any(1), length - np.argmax(future[:, ::-1], axis=1), rows + 1)
    for size in range(2, length // 2 + 1):
        if (ends == np.minimum((rows // size + 1) * size, length)).all():
            return "sees its whole block", f"blocks of {size} positions"
    return None


def _wrap(future: Array) -> Guess | None:
    """Only the first outputs see the last inputs."""
    length = len(future)
    q, k = np.nonzero(future)
    n = int((q + length - k).max())
    if n > length // 2:
        return None
    return "wraps around", f"the first {int(q.max()) + 1} outputs see the last inputs"


def _full(sizes: Array, future: Array, reach: Array, last: str) -> Guess | None:
    """(Nearly) every output sees every later input."""
    possible = ~reach & ~np.tri(*reach.shape, dtype=bool)
    share = future.sum() / possible.sum()
    if share < 0.9:
        return None
    detail = f"{share:.0%} of all later inputs move an output"
    if ATTENTION.search(last) and not POOLING.search(last):
        return "mask dropped", detail
    if SPECTRAL.search(last) or (not POOLING.search(last) and _circular(sizes)):
        return "wraps around", detail
    if POOLING.search(last) or _uniform(sizes, future):
        return "pools or normalises over time", detail
    return "mask dropped", detail


def _uniform(sizes: Array, future: Array) -> bool:
    """Each later input moves all earlier outputs alike, as a common statistic does."""
    spread = []
    for column, rows in zip(sizes.T, future.T, strict=True):
        some = column[rows]
        spread += [float(some.std() / some.mean())] if len(some) > 2 else []
    return bool(spread) and float(np.median(spread)) < 0.2


def _circular(sizes: Array) -> bool:
    """How far an input moves an output depends on their distance around a circle."""
    columns = np.array([np.roll(column, -k) for k, column in enumerate(sizes.T)])[:, 1:]
    columns = columns / np.maximum(columns.max(1, keepdims=True), 1e-30)
    middle = np.median(columns, axis=0)
    return bool(middle.std() > 0.05 and np.abs(columns - middle).mean() < 0.2 * middle.std())


def of_blind(blind: Array, seen: Array, reach: Array) -> Guess:
    """Name the likely cause of visible pairs that never move."""
    length = len(reach)
    back = np.subtract.outer(np.arange(length), np.arange(reach.shape[1]))
    dead = np.flatnonzero(~seen.any(1) & reach.any(1))
    earlier = reach & (back > 0)
    if earlier.any() and not (seen & earlier).any():
        return "past hidden", "no earlier input moves any output"
    if len(dead):
        return "sees no key", f"outputs {_ranges(dead)} move for no input"
    kept = seen & reach
    measured, declared = (int(back[grid].max()) + 1 for grid in (kept, reach))
    band = (reach == ((back >= 0) & (back < declared))).all()
    first = np.flatnonzero(blind.any(0))
    if not band and len(first) < length // 2 and (first == np.arange(len(first))).all():
        return "prefix or sinks hidden", f"the first {len(first)} inputs"
    if measured < declared and (blind == (reach & (back >= measured))).all():
        return "window counts fewer keys", f"{measured} keys measured, {declared} declared"
    q, k = np.argwhere(blind)[0]
    return "wrong mask", f"{int(blind.sum())} visible pairs never move, first ({q}, {k})"


def _ranges(positions: Array) -> str:
    text = ", ".join(map(str, positions[:6].tolist()))
    return text + (", ..." if len(positions) > 6 else "")
