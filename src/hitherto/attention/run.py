"""Run a call on the backend that was picked for it."""

from torch import Tensor

from hitherto.attention import native, reference, sdpa, tiled
from hitherto.attention.choose import pick
from hitherto.attention.terms import Inputs, Terms

_RUN = {
    "reference": reference.run,
    "sdpa": sdpa.run,
    "tiled": tiled.run,
    "native": native.run,
}


def run(
    inputs: Inputs, terms: Terms, return_lse: bool, backend: str
) -> tuple[Tensor, Tensor | None]:
    """Return the output, and the lse where the backend has one."""
    backend = pick(inputs, terms, return_lse, backend).backend
    if inputs.q.numel() == 0 or inputs.k.numel() == 0:
        # Nothing to compute; torch's fused kernel divides by an empty batch and ends the process.
        backend = "reference"
    return _RUN[backend](inputs, terms)
