"""Which backend computes a call, and why: decided without running anything."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from hitherto.attention import native
from hitherto.attention.grid import SMALL, outline
from hitherto.attention.terms import Inputs, Terms
from hitherto.errors import Unsupported, explain

Backend = Literal["reference", "sdpa", "tiled", "native"]

FEW_ROWS = 16
"""Queries times heads of a group up to which the native kernels read keys where they lie."""

FEW_KEYS = 1024
"""Up to so many keys (and SMALL cells), a dense mask costs less than planning tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A backend and the reason for it."""

    backend: Backend
    """Name, as `attend` takes it."""

    reason: str
    """One sentence."""


DECODES = Choice(backend="native", reason="few queries: keys and values are read once, in place")
PAYS = Choice(backend="native", reason="on this CPU, torch reads more and is slower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend computes exactly."""

    name: Backend
    """Name, as `attend` takes it."""

    softcap: bool
    """Scores may be capped."""

    sinks: bool
    """A sink may join the denominator."""

    lse: bool
    """The log-sum-exp of each row can be returned."""

    def lacks(self, inputs: Inputs, terms: Terms, return_lse: bool) -> list[str]:
        """List what a call asks for and this backend cannot do."""
        asked = {
            "softcap": (terms.softcap is not None, self.softcap),
            "sinks": (inputs.sinks is not None, self.sinks),
            "return_lse": (return_lse, self.lse),
        }
        return [name for name, (wanted, able) in asked.items() if wanted and not able]


SDPA = Capabilities(name="sdpa", softcap=False, sinks=False, lse=False)

BACKENDS = (
    Capabilities(name="reference", softcap=True, sinks=True, lse=True),
    SDPA,
    Capabilities(name="tiled", softcap=True, sinks=True, lse=True),
    Capabilities(name="native", softcap=True, sinks=True, lse=True),
)
"""Every backend there is."""


def pick(inputs: Inputs, terms: Terms, return_lse: bool, backend: str) -> Choice:
    """Return the backend asked for, or the best one for "auto".

    Raises:
        Unsupported: the backend is unknown, or cannot do exactly what the call asks. Fix: one of
            those that the message lists.
    """
    if backend == "auto":
        return _best(inputs, terms, return_lse)
    lacks = {able.name: able.lacks(inputs, terms, return_lse) for able in BACKENDS}
    if missing := native.lacks(inputs):
        lacks["native"] = [f"this: {missing}"]
    exact = ", ".join(f'"{name}"' for name, missing in lacks.items() if not missing)
    if backend not in lacks:
        raise Unsupported(
            explain("backend", "must be a backend of this build", backend, f'use "auto" or {exact}')
        )
    if lacks[backend]:
        raise Unsupported(
            explain("backend", "must do exactly what the call asks",
                    f'"{backend}", which lacks {" and ".join(lacks[backend])}',
                    f'use "auto" or {exact}')
        )  # fmt: skip
    return Choice(backend=backend, reason="asked for by name")  # type: ignore[arg-type]


def _best(inputs: Inputs, terms: Terms, return_lse: bool) -> Choice:
    grid, q = terms.grid, inputs.q
    if q.numel() == 0 or inputs.k.numel() == 0:
        return Choice(backend="reference", reason="there is nothing to compute")
    if q.dtype == torch.float64:
        return Choice(backend="reference", reason="float64 asks for the oracle, not for speed")
    if native.lacks(inputs) is None and (ahead := _pays(inputs, terms)) is not None:
        return ahead
    if sdpa_lacks := SDPA.lacks(inputs, terms, return_lse):
        return Choice(backend="tiled", reason=f"sdpa has no {' and no '.join(sdpa_lacks)}")
    shape = outline(terms.mask, grid)
    if terms.form is None and shape != "other":
        what = "hides nothing" if shape == "everything" else "is causal from the first row"
        return Choice(backend="sdpa", reason=f"the mask {what}, which torch's kernel knows by name")
    cells = grid.q_len * grid.k_len
    if cells <= SMALL and grid.k_len <= FEW_KEYS:
        return Choice(backend="sdpa", reason=f"a dense mask of {cells} cells is cheap")
    if q.device.type != "cpu":
        return Choice(backend="sdpa", reason="torch's GPU kernels beat tiles of plain torch")
    return Choice(backend="tiled", reason=f"only the visible part of {_short(cells)} cells is read")


def _pays(inputs: Inputs, terms: Terms) -> Choice | None:
    """Return the native kernels where they were ahead of torch's at such a call, when measured.

    Source: benchmarks/results/native_log.md
    """
    rows = terms.grid.q_len * (inputs.q.shape[1] // inputs.k.shape[1])
    if rows <= FEW_ROWS:
        return DECODES
    # With AVX-512, torch may have bfloat16 arithmetic, which the kernels do not use yet.
    measured = inputs.q.dtype == torch.float32 or native.SETS[0] == "v3"
    return PAYS if measured else None


def _short(number: int) -> str:
    power = min(int(math.log10(max(number, 1))) // 3, 4)
    return (
        f"{number / 1000**power:.3g}{['', ' thousand', ' million', ' billion', ' trillion'][power]}"
    )
