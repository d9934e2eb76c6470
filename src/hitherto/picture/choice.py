"""One batch row and one head of a mask that has several."""

from hitherto.errors import MaskError, explain
from hitherto.mask import Mask, axes, select


def chosen(mask: Mask, batch: int = 0, head: int = 0) -> tuple[str, Mask]:
    """Return a line that says which batch row and head this is, empty without axes, and its mask.

    Raises:
        MaskError: when the mask has no such row or head.
    """
    said = []
    for name, size, index in zip(("batch", "head"), axes(mask), (batch, head), strict=True):
        if size is None:
            continue
        if not 0 <= index < size:
            raise MaskError(
                explain(
                    name, f"must be from 0 to {size - 1} for this mask", index, "pick one it has"
                )
            )
        said.append(f"{name} {index} of {size}")
    return ", ".join(said), select(mask, batch, head)
