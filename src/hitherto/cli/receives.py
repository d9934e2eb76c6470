"""What each library would receive for a mask, in a line: its own form, or why it cannot be."""

from hitherto.errors import MaskError, Unsupported
from hitherto.lowering.lower import ANY_MASK, TARGETS, lower
from hitherto.mask import Mask

MOST_CELLS = 1 << 24
"""Queries x keys up to which every target is built: some of them are dense."""
_WIDTH = 240


def received(mask: Mask, q_len: int, k_len: int, q_start: int) -> list[dict]:
    """List every target: its name, whether it can say this mask exactly, and what it would get."""
    return [_one(name, mask, q_len, k_len, q_start) for name in TARGETS]


def _one(name: str, mask: Mask, q_len: int, k_len: int, q_start: int) -> dict:
    if name in ANY_MASK:
        return {"target": name, "exact": True, "text": ""}
    try:
        found = lower(mask, name, q_len, k_len, q_start)
    except (Unsupported, MaskError) as error:
        return {"target": name, "exact": False, "text": str(error)}
    except ImportError as error:
        return {"target": name, "exact": True, "text": f"needs {error.name}, not installed here"}
    return {"target": name, "exact": True, "text": _line(found)}


def _line(found: object) -> str:
    text = " ".join(repr(found).split())
    if text.startswith("<"):  # no repr of its own: the class is what there is to say
        text = type(found).__name__
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
