"""`hitherto lower`: a mask in another library's form, or why it has none."""

import json as jsonlib
import sys
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

from hitherto.cli.blame import read_mask
from hitherto.cli.terminal import OK, console, say
from hitherto.errors import Unsupported

TABLES = "BLOCK_SIZE", "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"
"""What is printed of a BlockMask."""


def lower(
    text: str, to: str | None, length: int, keys: int | None, start: int | None, json: bool
) -> int:
    """Print the form of a mask for a target; without one, the targets that are exact."""
    from hitherto.lowering import lower as lowered
    from hitherto.lowering import targets

    mask = read_mask(text)
    k_len = length if keys is None else keys
    start = 0 if start is None and k_len < length else start
    if to is None:
        exact = targets(mask, length, k_len, start)
        form: Any = list(exact)
        lines = ["exact for " + " ".join(exact)]
    else:
        try:
            form = plain(lowered(mask, to, length, k_len, start))
        except ImportError as error:
            raise Unsupported(str(error)) from error
        pairs = form.items() if isinstance(form, dict) else {to: form}.items()
        lines = [f"{name:<22} {value}" for name, value in pairs]
    if json:
        sys.stdout.write(jsonlib.dumps({"mask": str(mask), "to": to, "form": form}) + "\n")
        return OK
    out = console(json)
    say(out, text.strip(), "bold")
    for line in lines:
        say(out, line)
    return OK


def plain(form: Any) -> Any:
    """Write a form as JSON would: arrays as lists, values as dicts, what is neither as its name."""
    if hasattr(form, "_asdict"):
        form = form._asdict()
    if is_dataclass(form):
        form = {field.name: getattr(form, field.name) for field in fields(form)}
    if hasattr(form, "kv_num_blocks"):
        form = {name: getattr(form, name) for name in TABLES}
    match form:
        case float() if not isfinite(form):
            return str(form)
        case None | bool() | int() | float() | str():
            return form
        case dict():
            return {str(name): plain(value) for name, value in form.items()}
        case list() | tuple():
            return [plain(value) for value in form]
    return plain(form.tolist()) if hasattr(form, "tolist") else str(form)
