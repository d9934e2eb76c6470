"""Where the tensors of a safetensors file, or of a folder of them, lie.

Source: https://github.com/huggingface/safetensors#format
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hitherto.model.loading.stored import MOST_AXES, Stored, refuse, require_sound

SIZES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
"""Bytes of a number."""

MOST_HEADER = 100_000_000
"""Bytes of a header, as in the library that writes these files."""

INDEX = "model.safetensors.index.json"


def read_folder(folder: Path) -> Mapping[str, Stored]:
    """The tensors of `model.safetensors`, or of the parts that its index names.

    Raises:
        ModelError: when there are none, or a file is not what it says.
    """
    if (folder / "model.safetensors").is_file():
        return read_safetensors(folder / "model.safetensors")
    index = folder / INDEX
    if not index.is_file():
        refuse(folder, "must hold model.safetensors or its index", "neither")
    parts = read_json(index).get("weight_map")
    if not isinstance(parts, dict) or not all(_is_plain(name) for name in parts.values()):
        refuse(index, "must say in weight_map which file of this folder holds a tensor", "else")
    tensors: dict[str, Stored] = {}
    for name in sorted(set(parts.values())):
        if not (folder / name).is_file():
            refuse(index, "must name files that are there", name, "a part is missing")
        for tensor in read_safetensors(folder / name).values():
            if parts.get(tensor.name) == name:
                tensors[tensor.name] = tensor
    if missing := sorted(parts.keys() - tensors.keys()):
        refuse(index, "must name tensors that its files hold", missing[0])
    return tensors


def read_safetensors(path: Path) -> Mapping[str, Stored]:
    """The tensors of one file, checked against its length."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))[0]
        if length > min(size - 8, MOST_HEADER):
            refuse(path, "must hold its header", f"{length} bytes of {size}", "it is cut short")
        header = _parsed(file.read(length), path)
    tensors = [
        _tensor(name, entry, path, 8 + length, size)
        for name, entry in header.items()
        if name != "__metadata__"
    ]
    require_sound(tensors, size)
    return {tensor.name: tensor for tensor in tensors}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds a table."""
    return _parsed(path.read_bytes(), path)


def _parsed(data: bytes, path: Path) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        refuse(path, "must be JSON", f"{type(error).__name__}: {error}")
    if not isinstance(values, dict):
        refuse(path, "must be a JSON table", type(values).__name__)
    return values


def _tensor(name: str, entry: Any, path: Path, start: int, size: int) -> Stored:
    match entry:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(first), int(end)]} if (
            kind in SIZES
            and len(shape) <= MOST_AXES
            and all(type(n) is int and 0 <= n < size for n in shape)
        ):
            stored = Stored(
                name=name, shape=tuple(shape), kind=kind, block=(1, SIZES[kind]), path=path,
                offset=start + first,
            )  # fmt: skip
            if first >= 0 and stored.nbytes == end - first:
                return stored
    refuse(path, f"must give {name[:80]!r} a known dtype, a shape and its bytes", entry)


def _is_plain(name: object) -> bool:
    """Whether a name stays in its folder."""
    return isinstance(name, str) and Path(name).name == name and name not in ("", ".", "..")
