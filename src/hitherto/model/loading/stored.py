"""Tensors where they lie in a file, and reading them in bounded memory.

GGUF and safetensors both become a table of these, so that lengths and offsets are checked once,
before anything is trusted, and read in one way.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from hitherto.errors import ModelError, explain

PLAIN = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""Number formats that torch has; all others are blocks of quantised numbers."""

CHUNK = 1 << 18
"""Bytes read at once: what fits a cache once it is spelled out."""

MOST_AXES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tensor in a file; nothing of it is read until asked for."""

    name: str
    """As the file calls it."""
    shape: tuple[int, ...]
    """Sizes, the last axis contiguous."""
    kind: str
    """Number format as GGUF and safetensors name it: F32, BF16, Q4_1, ..."""
    block: tuple[int, int]
    """Numbers in a block of this format, and its bytes; (1, 4) for F32."""
    path: Path
    """The file."""
    offset: int
    """Where its first byte is."""

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        numbers, size = self.block
        return math.prod(self.shape) // numbers * size

    def mapped(self, dtype: torch.dtype) -> Tensor | None:
        """The tensor as a private mapping of the file, if its numbers are of this dtype already.

        Writing to it changes memory, never the file. The file must not be shortened meanwhile.
        """
        itemsize = self.block[1]
        if PLAIN.get(self.kind) != dtype or self.offset % itemsize or not self.nbytes:
            return None
        words = np.memmap(self.path, _word(itemsize), "c", self.offset, self.shape)
        return torch.from_numpy(words).view(dtype)

    def read_rows(self, start: int, stop: int) -> Tensor:
        """Rows start .. stop - 1 of the first axis, in the file's numbers or float32.

        A tensor of one axis is one row.
        """
        shape = self.shape if len(self.shape) > 1 else (1, *self.shape)
        row = self.nbytes // max(shape[0], 1)
        count = (stop - start) * row
        data = np.fromfile(self.path, np.uint8, count, offset=self.offset + start * row)
        if data.size != count:
            refuse(self.path, f"must hold all {self.nbytes} bytes of {self.name}", "fewer")
        return self._values(data).view(stop - start, *shape[1:])

    def steps(self) -> Iterable[tuple[int, int]]:
        """Cut the rows so that about CHUNK bytes are read at once."""
        rows = self.shape[0] if len(self.shape) > 1 else 1
        step = max(1, CHUNK * rows // max(self.nbytes, 1))
        return pairwise([*range(0, rows, step), rows])

    def read(self) -> Tensor:
        """The whole tensor, in the file's numbers or float32."""
        rows = self.shape[0] if len(self.shape) > 1 else 1
        return self.read_rows(0, rows).view(self.shape)

    def _values(self, data: np.ndarray) -> Tensor:
        if (dtype := PLAIN.get(self.kind)) is not None:
            return torch.from_numpy(data.view(_word(self.block[1]))).view(dtype)
        from gguf import GGMLQuantizationType, dequantize

        # All blocks as one row: the library works through few rows at a time, five times slower.
        with np.errstate(all="ignore"):
            try:
                return torch.from_numpy(dequantize(data[None], GGMLQuantizationType[self.kind]))
            except NotImplementedError:
                refuse(self.path, "must be in a format that gguf can spell out", self.kind)


def require_sound(tensors: Sequence[Stored], size: int) -> None:
    """Raise ModelError unless every tensor lies inside its file of `size` bytes, apart from others.

    All tensors are of one file.
    """
    seen: set[str] = set()
    for tensor in tensors:
        numbers, _ = tensor.block
        what = f"tensor {tensor.name[:80]!r}"
        if tensor.name in seen:
            refuse(tensor.path, "must name each tensor once", f"{what} again")
        seen.add(tensor.name)
        if len(tensor.shape) > MOST_AXES or min(tensor.shape, default=1) < 0:
            refuse(
                tensor.path, f"must have tensors of 0 to {MOST_AXES} axes", f"{what} {tensor.shape}"
            )
        if numbers > 1 and (not tensor.shape or tensor.shape[-1] % numbers):
            refuse(
                tensor.path, f"must cut {tensor.kind} rows in blocks of {numbers}",
                f"{what} {tensor.shape}",
            )  # fmt: skip
        if tensor.offset < 0 or tensor.offset + tensor.nbytes > size:
            refuse(
                tensor.path, f"must hold its tensors in its {size} bytes",
                f"{what}, {tensor.nbytes} bytes at {tensor.offset}", "it may be cut short",
            )  # fmt: skip
    inside = sorted((t for t in tensors if t.nbytes), key=lambda tensor: tensor.offset)
    for one, other in pairwise(inside):
        if one.offset + one.nbytes > other.offset:
            refuse(
                one.path, "must keep tensors apart", f"{one.name[:80]!r} over {other.name[:80]!r}"
            )


def refuse(path: Path, rule: str, came: object, why: str = "") -> NoReturn:
    """Raise ModelError about a file that cannot be what it says."""
    fix = f"{why + ': ' if why else ''}fetch the file again, or use another"
    raise ModelError(explain(path.name, rule, came, fix))


def _word(itemsize: int) -> type[np.generic]:
    return {2: np.int16, 4: np.float32, 8: np.float64}[itemsize]
