"""Lengths as people write them: 4096, 64k, 1M."""

import re

import typer

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def length(text: str | int) -> int:
    """Read a length; k, M and G are 1,024, 1,024 k and 1,024 M, as in "a 64k context"."""
    found = re.fullmatch(r"([0-9][0-9_,]*)([kKmMgG]?)", str(text).strip())
    if not found:
        raise typer.BadParameter(f"{text!r} is not a length. Write 0 or more: 4096, 64k or 1M.")
    return int(re.sub("[_,]", "", found[1])) * _UNITS[found[2].lower()]
