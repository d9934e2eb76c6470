"""What to run: lengths around every window, chunk and cache size, and the probes wanted."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from hitherto.audit.declared import Declared
from hitherto.audit.ledger import Ledger
from hitherto.audit.subject import Subject
from hitherto.errors import MaskError
from hitherto.mask import Mask
from hitherto.mask.questions.reach import reach

USUAL = (8, 33, 130)
"""Run whatever the sizes are: 130 is beyond blocks of 64 that no setting tells of."""
LONGEST = 1040
"""Longest length chosen by itself."""
MOST = 14
"""Lengths at most."""


@dataclass(frozen=True)
class Plan:
    """What the probes are to run."""

    lengths: tuple[int, ...]
    """Lengths at which the plain forward runs, ascending."""
    map_length: int
    """Length of the whole map."""
    modes: Literal["auto", "all"] | Sequence[str] = "auto"
    """Names of probes and modes wanted."""
    cross: Declared | None = None
    """Which source positions a target position may see."""
    encoder: Declared | None = None
    """Which source positions a source position may see."""

    def wants(self, name: str, slow: bool = False) -> bool:
        """Whether a probe or mode is to run; slow ones only by name or with "all"."""
        if self.modes == "auto":
            return not slow
        return self.modes == "all" or name in self.modes

    @property
    def short(self) -> tuple[int, ...]:
        """The lengths for modes beside the plain forward: at most three, within 130."""
        some = [n for n in self.lengths if n <= max(130, self.lengths[0])]
        return tuple(sorted({some[0], some[len(some) // 2], some[-1]}))


def choose_lengths(subject: Subject, declared: Declared, ledger: Ledger) -> list[int]:
    """Return ascending lengths: below, at, and twice above every size; what is left out is told."""
    ends = [end for mask in declared.masks for end in _data(mask)]
    if ends:
        return [min(ends)]
    sizes = sorted({*subject.sizes, *(n for mask in declared.masks for n in sizes_of(mask))})
    wanted = {n for size in sizes if size < 4096 for n in (size - 1, size, size + 1, 2 * size + 1)}
    high = min(subject.max_length or LONGEST, LONGEST)
    low = max(subject.min_length, 2)
    inside = {n for n in wanted if low <= n <= high} | {min(max(n, low), high) for n in USUAL}
    beyond = sorted(n for n in wanted if n > high)
    if beyond:
        why = f"beyond {high}, the longest run by itself: pass lengths="
        ledger.miss(f"lengths {beyond[0]} to {beyond[-1]}", why)
    return _thin(sorted(inside), [n for n in (*sizes, *(s + 1 for s in sizes)) if n <= high])


def _thin(lengths: list[int], keep: list[int]) -> list[int]:
    """At most `MOST` lengths: the ends, those to keep, and an even choice of the others."""
    if len(lengths) <= MOST:
        return lengths
    first = list(dict.fromkeys([lengths[0], lengths[-1], *(n for n in keep if n in lengths)]))
    rest = [n for n in lengths if n not in first]
    chosen = first[:MOST] + rest[:: max(1, len(rest) // max(1, MOST - len(first)))]
    return sorted(chosen[:MOST])


def sizes_of(mask: Mask) -> set[int]:
    """Return the widths, lengths, sizes and steps written in a mask."""
    found: set[int] = set()
    for field in fields(mask):  # type: ignore[arg-type]
        value = getattr(mask, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Mask):
                found |= sizes_of(part)
            elif type(part) is int and part > 1:
                found.add(part)
    return found


def _data(mask: Mask) -> list[int]:
    """Return how far the mask's own data (ids, times, tables) reach."""
    try:
        ends = reach(mask)
    except MaskError:
        return []
    return [end for end in (ends.q_data, ends.k_data) if end is not None]


def choose_map_length(subject: Subject, lengths: list[int], full: bool) -> int:
    """Return the length of the whole map: the longest run, within 130 (40 for large models)."""
    if full:
        return lengths[-1]
    parameters = 0
    if subject.module is not None:
        parameters = sum(p.numel() for p in subject.module.parameters())
    high = 40 if parameters > 5_000_000 else 130
    return max([n for n in lengths if n <= high], default=lengths[0])
