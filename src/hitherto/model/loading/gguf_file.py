"""Reading the head of a GGUF file: its settings, its vocabulary, and where its tensors lie.

The reader of the `gguf` package trusts every length it finds and takes seconds for a vocabulary;
this one checks each before use. Formats and dequantisation are that package's.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np

from hitherto.errors import ModelError, Unsupported, explain
from hitherto.model.loading.stored import MOST_AXES, Stored, refuse, require_sound

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_ITEMS = 1 << 24
"""Items of an array of texts, entries of a table: beyond that a file is no model."""

STRING, ARRAY = 8, 9
SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
"""Types of a setting, as numpy spells them."""

Value = bool | int | float | str | list[str] | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class GGUF:
    """What the head of a file says."""

    metadata: Mapping[str, Value]
    """Settings by name; arrays of numbers as numpy arrays."""
    tensors: Mapping[str, Stored]
    """Tensors by name."""


def read_gguf(path: Path) -> GGUF:
    """Read the head of a file; its tensors stay where they are.

    Raises:
        ModelError: when the file is cut short, is no GGUF, or says what cannot be.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 24:
            refuse(path, "must be a GGUF file", f"{size} bytes")
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            head = _Head(data, path)
            return head.read(_formats())


class _Head:
    """A place in the file that only moves on when there is enough left."""

    def __init__(self, data: mmap, path: Path) -> None:
        self.data, self.path, self.at = data, path, 0

    def read(self, formats: Mapping[int, tuple[str, int, int]]) -> GGUF:
        if self.take(4) != MAGIC:
            refuse(self.path, "must begin with the letters GGUF", bytes(self.data[:4]))
        version, count, entries = self.number("<I"), self.number("<Q"), self.number("<Q")
        if version not in VERSIONS:
            refuse(self.path, f"must be GGUF version {VERSIONS}, little-endian", version)
        metadata: dict[str, Value] = {}
        for _ in self.counted(entries, 13, "settings"):
            name = self.text()
            if name in metadata:
                refuse(self.path, "must give each setting once", f"{name[:80]!r} again")
            metadata[name] = self.value(self.number("<I"))
        heads = [self.tensor(formats) for _ in self.counted(count, 24, "tensors")]
        start = self.aligned(metadata.get("general.alignment", 32))
        tensors = [
            Stored(
                name=name, shape=shape, kind=kind, block=block, path=self.path, offset=start + at
            )
            for name, shape, kind, block, at in heads
        ]
        require_sound(tensors, len(self.data))
        return GGUF(metadata=metadata, tensors={tensor.name: tensor for tensor in tensors})

    def take(self, count: int) -> bytes:
        start, stop = self.at, self.at + count
        if stop > len(self.data):
            refuse(
                self.path, f"must go on for {count} bytes at {start}", "its end", "it is cut short"
            )
        self.at = stop
        return self.data[start:stop]

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        start, data = self.at, self.take(self.number("<Q"))
        try:
            return data.decode()
        except UnicodeDecodeError:
            refuse(self.path, f"must hold UTF-8 at {start}", data[:20])

    def counted(self, count: int, smallest: int, what: str) -> Iterator[int]:
        """Count to what the file says, if so many could be in the rest of it."""
        most = min(MOST_ITEMS, (len(self.data) - self.at) // smallest)
        if count > most:
            refuse(
                self.path, f"must have at most {most} {what}", count, "it is cut short or broken"
            )
        return iter(range(count))

    def value(self, kind: int) -> Value:
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self.array(self.number("<I"), self.number("<Q"))
        return self.numbers(kind, 1)[0].item()

    def array(self, kind: int, count: int) -> Value:
        if kind == STRING:
            return [self.text() for _ in self.counted(count, 8, "texts in a list")]
        return self.numbers(kind, count)

    def numbers(self, kind: int, count: int) -> np.ndarray:
        if kind not in SCALARS:
            refuse(self.path, f"must have settings of types {[*SCALARS, STRING]}", kind)
        dtype = np.dtype(SCALARS[kind])
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)

    def tensor(
        self, formats: Mapping[int, tuple[str, int, int]]
    ) -> tuple[str, tuple[int, ...], str, tuple[int, int], int]:
        name, axes = self.text(), self.number("<I")
        if axes > MOST_AXES:
            refuse(self.path, f"must have tensors of at most {MOST_AXES} axes", axes)
        shape = tuple(self.number("<Q") for _ in range(axes))[::-1]
        kind, offset = self.number("<I"), self.number("<Q")
        if kind not in formats:
            raise ModelError(
                explain(f"{self.path.name}, tensor {name[:80]!r}", "must be of a known format",
                        f"format {kind}", "convert the file, or upgrade gguf")
            )  # fmt: skip
        form, numbers, size = formats[kind]
        return name, shape, form, (numbers, size), offset

    def aligned(self, alignment: Value) -> int:
        """Where the tensors begin."""
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            refuse(self.path, "must give general.alignment as a power of two", alignment)
        return -(-self.at // alignment) * alignment


def _formats() -> dict[int, tuple[str, int, int]]:
    """Name, numbers and bytes of a block, for every format by its number in the file."""
    try:
        from gguf import GGML_QUANT_SIZES
    except ImportError:
        raise Unsupported(
            explain("GGUF files", "need the gguf package", "not installed",
                    "install hitherto[models]")
        ) from None  # fmt: skip
    return {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
