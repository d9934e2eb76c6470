"""A mask in words."""

import numpy as np

from hitherto.lowering.recognise.differences import Differences
from hitherto.mask import (
    And,
    Band,
    Batch,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
    Everything,
    Keys,
    Mask,
    Minus,
    Not,
    Nothing,
    Or,
    PerHead,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Shift,
    Strided,
    Table,
    Timeline,
    Tree,
    Window,
)


def sentence(pattern: Mask, grid: Batch, differences: Differences) -> str:
    """Say a pattern, what differs from it, and on which grid."""
    q_start, q_len, k_len = grid.spans[0].grid
    where = f"{_count(q_len, 'query')} from {q_start:,} x {_count(k_len, 'key')}"
    said = phrase(pattern, q_start, k_len)
    but = f", but {differences.words}" if differences.count else ""
    return f"{said[0].upper()}{said[1:]}{but} ({where})."


def phrase(mask: Mask, q_start: int = 0, k_len: int = 0) -> str:
    """Say what a query may attend to."""

    def said(part: Mask) -> str:
        text = phrase(part, q_start, k_len)
        return f"({text})" if isinstance(part, (And, Or, Minus)) else text

    match mask:
        case PerHead(masks=masks):
            return "; ".join(
                f"head {h}: {phrase(part, q_start, k_len)}" for h, part in enumerate(masks)
            )
        case And(left=Causal(), right=b):
            return f"causal, within {said(b)}"
        case And(left=a, right=b):
            return f"{_flat(mask, a, said(a), q_start, k_len)}, within {said(b)}"
        case Or(left=a, right=b):
            return f"{_flat(mask, a, said(a), q_start, k_len)} or {said(b)}"
        case Minus(left=a, right=Prefix(length=length)):
            return f"{phrase(a, q_start, k_len)}, left padding {length:,}"
        case Minus(left=a, right=b):
            return f"{phrase(a, q_start, k_len)}, without {said(b)}"
        case Not(mask=a):
            return f"all but {said(a)}"
        case Shift(mask=Table() as a):
            return phrase(a)
        case Shift(mask=a, q=q, k=k):
            moved = f"{k:,} keys" if q == k else f"{q:,} queries and {k:,} keys"
            return f"{said(a)} moved by {moved}"
    return _leaf(mask, q_start, k_len)


def _flat(mask: Mask, left: Mask, text: str, q_start: int, k_len: int) -> str:
    return phrase(left, q_start, k_len) if type(left) is type(mask) else text


def _leaf(mask: Mask, q_start: int, k_len: int) -> str:
    match mask:
        case Everything():
            return "every query sees every key"
        case Nothing():
            return "no query sees any key"
        case Causal():
            return "causal"
        case Window(width=width):
            return f"a causal window of {width:,}"
        case Band(before=None, after=int(after)) if q_start and after == -q_start:
            return "causal counted from the first query (top-left)"
        case Band(before=before, after=after):
            return f"keys from {_far(before, 'before')} to {_far(after, 'after')} the query"
        case Prefix(length=length):
            return f"the first {_count(length, 'key')}"
        case Chunks(size=size, start=start):
            return f"chunks of {size:,}" + (f" from {start:,} on" if start else "")
        case BlockCausal(size=size):
            return f"blocks of {size:,}, each with those before it"
        case Strided(step=step):
            return f"every {_nth(step)} key from the query"
        case Dilated(width=width, step=step):
            return f"a window of {width:,} keys, every {_nth(step)}"
    return _data(mask, k_len)


def _data(mask: Mask, k_len: int) -> str:
    match mask:
        case Segments(ids=ids, k_ids=k_ids):
            return _segments(ids, k_ids)
        case Keys(where=((start, stop),)) if stop >= k_len > start > 0:
            return f"keys from {start:,} on (left padding {start:,})"
        case Keys(where=((0, stop),)):
            return f"the first {_count(stop, 'key')} (right padding {k_len - stop:,})"
        case Keys(where=np.ndarray() as where) if where.ndim == 2:
            return f"the keys of each batch row ({_padding(where)})"
        case Keys(where=where):
            return f"keys {_ranges(where)}"
        case Queries(where=np.ndarray() as where) if where.ndim == 2:
            return "the queries of each batch row"
        case Queries(where=where):
            return f"queries {_ranges(where)}"
        case Timeline():
            return "keys up to a time of each query"
        case Tree(parents=parents):
            return f"a tree of {parents.size:,} drafts"
        case RandomBlocks(block=block, count=count, seed=seed):
            return f"{count} random blocks of {block} (seed {seed})"
    return "no named pattern (a table)"


def _segments(ids: np.ndarray, k_ids: np.ndarray | None) -> str:
    rows = np.atleast_2d(ids)
    counts = [np.unique(row[row >= 0]).size for row in rows]
    low, high = min(counts), max(counts)
    number = _count(low, "document") if low == high else f"{low} to {high} documents"
    text = f"{number}{' a batch row' if len(rows) > 1 else ''}"
    if k_ids is not None:
        return f"{text}, queries and keys cut differently"
    pads = _padding(rows >= 0)
    return f"{text}, {pads}" if pads else text


def _padding(real: np.ndarray) -> str:
    """Name what stands before the first real position and after the last."""
    some = real[real.any(1)]
    if not len(some):
        return ""
    found = []
    for side, pads in (("left", some.argmax(1)), ("right", some[:, ::-1].argmax(1))):
        low, high = int(pads.min()), int(pads.max())
        if high:
            found.append(f"{side} padding {low}" + (f" to {high}" if high > low else ""))
    return ", ".join(found)


def _ranges(where: object) -> str:
    if isinstance(where, np.ndarray):
        flips = np.flatnonzero(np.diff(where.astype(np.int8), prepend=0, append=0))
        where = flips.reshape(-1, 2).tolist()
    parts = [f"{a:,}..{b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in where]  # type: ignore
    if len(parts) <= 4:
        return ", ".join(parts)
    return ", ".join(parts[:3]) + f", ... ({len(parts):,} ranges)"


def _far(distance: int | None, side: str) -> str:
    other = {"before": "after", "after": "before"}[side]
    if distance is None:
        return f"any {side}"
    return f"{distance:,} {side}" if distance >= 0 else f"{-distance:,} {other}"


def _count(number: int, noun: str) -> str:
    plural = {"query": "queries"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"


def _nth(step: int) -> str:
    return {2: "second", 3: "third"}.get(step, f"{step}th")
