"""`hitherto recognise`: what the mask in a file says, with a picture."""

import json as jsonlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from hitherto.cli.terminal import OK, console, say
from hitherto.errors import MaskError, explain
from hitherto.lowering.recognise import Recognition, recognise
from hitherto.lowering.recognise.reading.dense import Polarity
from hitherto.picture import draw

LONGEST = 240
"""Characters of a mask that are printed; --json prints all."""


def recognise_file(
    file: Path, tensor: str | None, true: Polarity, start: int | None, batch: int, head: int,
    json: bool,
) -> int:  # fmt: skip
    """Print the expression, what it says in words, and the picture of one batch row and head."""
    found = recognise(read(file, tensor), true=true, q_start=start)
    if json:
        sys.stdout.write(jsonlib.dumps(_facts(found)) + "\n")
        return OK
    out = console()
    say(out, _shortened(str(found.pattern)), "bold")
    say(out, found.sentence)
    say(out)
    _picture(out, found, batch, head)
    say(out)
    for line in _lines(found):
        say(out, line)
    return OK


def read(file: Path, tensor: str | None = None) -> Any:
    """Read an array from a .npy, .pt or .safetensors file. Nothing in the file is ever run.

    Raises:
        MaskError: another kind of file, one that is damaged, or a name that it has not.
    """
    readers = {".npy": _npy, ".pt": _pt, ".pth": _pt, ".safetensors": _safetensors}
    if file.suffix not in readers:
        raise MaskError(
            explain("FILE", f"must end in {', '.join(readers)}", file.name,
                    "save the mask with numpy.save")
        )  # fmt: skip
    if file.is_file() and not file.stat().st_size:
        raise MaskError(explain("FILE", "must hold an array", f"{file.name}, empty", "save again"))
    return readers[file.suffix](file, tensor)


def _npy(file: Path, tensor: str | None) -> Any:
    import numpy as np

    if tensor is not None:
        raise MaskError(explain("--tensor", "is for files of several", tensor, "leave it out"))
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _damaged(file, error) from None


def _pt(file: Path, tensor: str | None) -> Any:
    import torch

    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a damaged file may break the restricted unpickler anywhere
        raise _damaged(file, error) from None
    if isinstance(held, torch.Tensor):
        return held
    tensors = {
        name: value for name, value in held.items() if isinstance(value, torch.Tensor)
    } if isinstance(held, Mapping) else {}  # fmt: skip
    return tensors[_chosen(file, list(tensors), tensor)]


def _safetensors(file: Path, tensor: str | None) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as held:
            return held.get_tensor(_chosen(file, list(held.keys()), tensor))
    except SafetensorError as error:
        raise _damaged(file, error) from None


def _chosen(file: Path, names: list[str], tensor: str | None) -> str:
    """Return the name asked for, or the only one."""
    if tensor in names:
        return tensor
    if tensor is None and len(names) == 1:
        return names[0]
    raise MaskError(
        explain("--tensor", f"must be a tensor of {file.name}: {', '.join(names) or 'it has none'}",
                tensor, "name one of them")
    )  # fmt: skip


def _damaged(file: Path, error: Exception) -> MaskError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
    return MaskError(
        explain("FILE", f"must be a whole {file.suffix} file of plain arrays",
                f"{file.name} ({reason})", "save the array again, without objects")
    )  # fmt: skip


def _facts(found: Recognition) -> dict[str, Any]:
    return {
        "mask": str(found.mask),
        "pattern": str(found.pattern),
        "exact": found.exact,
        "differences": found.differences.count,
        "first_differences": found.differences.first,
        "queries": found.q_len,
        "keys": found.k_len,
        "start": found.q_start,
        "sentence": found.sentence,
    }


def _picture(out: Console, found: Recognition, batch: int, head: int) -> None:
    picture = draw(
        found.mask, found.q_len, found.k_len, q_start=found.q_start, batch=batch, head=head,
        width=out.width, color=out.is_terminal and not out.no_color,
        ascii="utf" not in (out.file.encoding or "utf-8").lower(),
    )  # fmt: skip
    out.file.write(f"{picture}\n")


def _lines(found: Recognition) -> list[str]:
    if found.exact:
        return ["exact     yes, every cell"]
    first = ", ".join(f"({q}, {k})" for *_, q, k in found.differences.first)
    return [
        f"exact     no: {found.differences.count:,} cells differ, first (query, key): {first}",
        f"equal     {_shortened(str(found.mask))}",
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + " ... (--json prints all)"
