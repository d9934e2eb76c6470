"""A few lines of Python that show a finding again; they begin from `model`, the caller's own.

Each probe spells what it compared, in functions of `hitherto.audit` that it calls itself; here the
lines get their imports and the subject in its mode. The last line prints one number: of a blind
pair it is 0, of everything else it should be 0 and is not, unless the lines raise.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from hitherto.audit.case import ROWS, Case

NAMES = (
    "adapt", "apart", "changed", "filled", "gradient_map", "losses", "mode", "module_map", "moved",
    "padded_steps", "poisoned", "source_map", "staged", "state_map",
)  # fmt: skip
"""What the lines may call, besides numpy: all of it in `hitherto.audit`."""
PLAIN = ("eval", "batch 1")
"""Modes that are the subject itself."""


def replay(case: Case, *lines: str, double: bool = False) -> str:
    """Return at most ten lines: imports, `subject` in the case's mode, then these.

    Args:
        case: of the probe.
        lines: Python that uses `subject`, `np` and `NAMES`.
        double: whether it shows in the float64 copy.
    """
    *imports, made = case.subject.code.splitlines()
    if case.mode not in PLAIN:
        made = f"mode({made}, {case.mode!r})"
    if double or case.double:
        made = f"mode({made}, 'float64')"
    words = set(re.findall(r"\w+", " ".join([made, *(line.split("  #")[0] for line in lines)])))
    used = [name for name in NAMES if name in words]
    numpy = ["import numpy as np"] if "np" in words else []
    imports += [f"from hitherto.audit import {', '.join(used)}"] if used else []
    return "\n".join([*numpy, *imports, f"subject = {made}  # {case.subject.name}", *lines])


def pair(
    case: Case, drawn: Sequence[str], one: str, other: str, where: str, says: str,
    double: bool = False,
) -> str:  # fmt: skip
    """Return lines that compute outputs in two ways and print how far apart they are there."""
    lines = (f"a, b = {one}, {other}", f"print(moved(a, b)[{where}].max())  # {says}")
    return replay(case, *drawn, *lines, double=double)


def base(case: Case, length: int, rows: int = 1) -> str:
    """Spell `case.base(length)` as x, or more rows of it."""
    return f"x = subject.draw(np.random.default_rng({case.seed}), {rows}, {length})"


def other(case: Case, keys: Sequence[int] | np.ndarray, draw: int) -> str:
    """Spell y: x with other values at these positions."""
    return f"y = changed(subject, x, {case.seed}, {draw}, {positions(keys)})"


def moving(case: Case, length: int, keys: np.ndarray, query: int, draw: int, says: str) -> str:
    """Return lines that change these inputs and print how far an output moves."""
    one, two = (f"subject.run(np.repeat({z}, {case.rows}, axis=0))" for z in "xy")
    drawn = base(case, length), other(case, keys, draw)
    return pair(case, drawn, one, two, f":, {query}", f"output {query} {says}")


def positions(keys: Sequence[int] | np.ndarray) -> str:
    """Spell positions as a range where they are one, else as a list."""
    where = [int(key) for key in keys]
    steps = {b - a for a, b in pairwise(where)}
    if len(steps) == 1 and (len(where) > 2 or steps == {1}):
        return str(range(where[0], where[-1] + 1, *steps - {1}))
    return str(where)


def rows_of(case: Case) -> str:
    """Spell the seed and the rows of a forward, as the map functions take them."""
    return f"seed={case.seed}" + (f", rows={case.rows}" if case.rows != ROWS else "")
