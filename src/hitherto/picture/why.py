"""Why a query may or may not see a key, in words, by walking the expression."""

import numpy as np

from hitherto.mask import (
    And,
    Band,
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
    Prefix,
    Queries,
    Segments,
    Shift,
    Strided,
    Timeline,
    Tree,
    Window,
    Xor,
    evaluate,
)
from hitherto.picture.choice import chosen


def why(mask: Mask, q: int, k: int, *, batch: int = 0, head: int = 0) -> str:
    """Say whether query q may see key k, and which parts of the mask decide it.

        >>> why(Causal() & Window(4096), 9000, 3880)
        'hidden: 5,120 back, Window(4096) allows 4,095; Causal() allows it'

    Args:
        mask: the mask.
        q: absolute position of the query.
        k: absolute position of the key.
        batch: batch row, for a mask with a batch axis.
        head: head, for a mask with a head axis.

    Returns:
        "visible: ..." or "hidden: ...", the deciding parts first.

    Raises:
        MaskError: a position beyond the mask's data. Fix: ask for one inside it.
    Cost: one pair for each part of the expression.
    """
    _, mask = chosen(mask, batch, head)
    return f"{'visible' if _sees(mask, q, k) else 'hidden'}: " + "; ".join(_reasons(mask, q, k))


def _sees(mask: Mask, q: int, k: int) -> bool:
    """Decide one pair: the meaning is `evaluate`'s, here are only its words."""
    return bool(evaluate(mask, np.array([q]), np.array([k]))[0, 0])


def _reasons(mask: Mask, q: int, k: int) -> list[str]:
    """List what decides this pair, the parts that agree with the answer first."""
    seen = _sees(mask, q, k)
    match mask:
        case And(left=a, right=b) | Or(left=a, right=b):
            parts = sorted((a, b), key=lambda part: _sees(part, q, k) != seen)
            return [reason for part in parts for reason in _reasons(part, q, k)]
        case Minus(left=a, right=b):
            if not _sees(a, q, k):
                return _reasons(a, q, k)
            taken = "takes it away" if _sees(b, q, k) else "leaves it"
            return [f"- {name(b)} {taken} ({_because(b, q, k)})", *_reasons(a, q, k)]
        case Not(mask=a):
            return [f"{name(mask)} {'allows' if seen else 'hides'} it ({_because(a, q, k)})"]
        case Xor(left=a, right=b):
            which = "exactly one side allows it" if seen else "both sides say the same"
            return [f"{which} ({_because(a, q, k)} ^ {_because(b, q, k)})"]
        case Shift(mask=a, q=dq, k=dk):
            moved = _because(a, q - dq, k - dk)
            return [f"moved to query {q - dq:,}, key {k - dk:,}: {moved}"]
    return [f"{name(mask)} allows it" if seen else _hiding(mask, q, k)]


def _because(mask: Mask, q: int, k: int) -> str:
    return "; ".join(_reasons(mask, q, k))


def _hiding(mask: Mask, q: int, k: int) -> str:
    """Say why a mask that is not built from others hides this pair."""
    said, gap = name(mask), _gap(q - k)
    match mask:
        case Everything() | Nothing():
            return f"{said} hides every key"
        case Causal():
            return f"{gap}, {said} allows none ahead"
        case Window(width=width) | Dilated(width=width, step=1):
            return f"{gap}, {said} allows " + (f"{width - 1:,}" if k <= q else "none ahead")
        case Band(before=before, after=after):
            back = "any distance back" if before is None else f"{before:,} back"
            ahead = "any distance ahead" if after is None else f"{after:,} ahead"
            return f"{gap}, {said} allows from {back} to {ahead}"
        case Dilated(width=width, step=step):
            return f"{gap}, {said} allows multiples of {step:,} up to {(width - 1) * step:,} back"
        case Strided(step=step):
            return f"{gap}, {said} allows multiples of {step:,}"
        case Prefix(length=length):
            return f"key {k:,} is not among the first {length:,}, {said}"
        case Chunks(size=size, start=start):
            return f"query in chunk {(q - start) // size:,}, key in {(k - start) // size:,}, {said}"
        case BlockCausal(size=size):
            return f"query in block {q // size:,}, key in later block {k // size:,}, {said}"
    return _hiding_by_data(mask, q, k)


def _hiding_by_data(mask: Mask, q: int, k: int) -> str:
    """The same, for masks that carry data."""
    said = name(mask)
    match mask:
        case Segments(ids=ids, k_ids=k_ids):
            mine, other = int(ids[q]), int((ids if k_ids is None else k_ids)[k])
            if mine < 0:
                return f"query {q:,} belongs to no segment (id {mine}), {said}"
            return f"query in segment {mine:,}, key in {other if other >= 0 else 'none'}, {said}"
        case Queries():
            return f"query {q:,} is not in {said}"
        case Keys():
            return f"key {k:,} is not in {said}"
        case Timeline(q_time=q_time, k_time=k_time, lookahead=lookahead):
            return f"key at {k_time[k]:g} s, query sees up to {q_time[q] + lookahead:g} s, {said}"
        case Tree(start=start):
            what = "of the tree, query before it" if q < start else "no ancestor of the query"
            return f"key {k:,} is {what}, {said}"
    return f"{said} hides it"


def _gap(back: int) -> str:
    return f"{back:,} back" if back >= 0 else f"{-back:,} ahead"


def name(mask: Mask) -> str:
    """Spell a mask, without its data when that is long."""
    text = str(mask)
    if isinstance(mask, Not):
        return f"~{name(mask.mask)}" if len(text) > 60 else text
    return text if len(text) <= 60 else f"{type(mask).__name__}(...)"
