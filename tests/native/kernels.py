"""What every native test shares: a call in native kernels, in float64, and the budget between."""

import pytest
import torch
from torch import Tensor

from hitherto.attention import native, reference
from hitherto.attention.prepare import prepare
from hitherto.attention.terms import Inputs
from hitherto.mask import Mask

INF = float("inf")

built = pytest.mark.skipif(not native.SETS, reason=native.ABSENT)
every_set = pytest.mark.parametrize("kernels", native.SETS)
"""Forces each instruction set that this processor runs."""

Results = dict[str, Tensor]


def call(q: Tensor, k: Tensor, v: Tensor, mask: Mask, **options):
    """Return the two parts of a call, as the backends take them."""
    names = ("bias", "scale", "softcap", "sinks", "q_start", "k_pos")
    return prepare(q, k, v, mask, *(options.get(name) for name in names))


def natively(inputs: Inputs, terms, grads, kernels: str) -> Results:
    return _results(lambda i, t: native.run(i, t, kernels), inputs, terms, grads)


def plainly(inputs: Inputs, terms, grads, dtype: torch.dtype = torch.float64) -> Results:
    inputs = Inputs(*(None if x is None else x.to(dtype) for x in inputs))
    return _results(reference.run, inputs, terms, grads)


def _results(run, inputs: Inputs, terms, grads) -> Results:
    """Return out, lse and the gradient of every input, of both results at once."""
    leaves = [None if x is None else x.detach().clone().requires_grad_() for x in inputs]
    out, lse = run(Inputs(*leaves), terms)
    grad, grad_lse = grads
    total = (out * grad.to(out.dtype)).sum()
    # An empty row's lse is -inf and has no gradient.
    total = total + (lse.masked_fill(lse == -INF, 0.0) * grad_lse.to(lse.dtype)).sum()
    held = {name: x for name, x in zip(Inputs._fields, leaves, strict=True) if x is not None}
    found = torch.autograd.grad(total, list(held.values()))
    return {"out": out.detach(), "lse": lse.detach(), **dict(zip(held, found, strict=True))}


def some_grads(inputs: Inputs, seed: int = 5) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    shape = (*inputs.q.shape[:3], inputs.v.shape[3])
    return torch.randn(shape, generator=random), torch.randn(shape[:3], generator=random)


def assert_agree(inputs: Inputs, terms, kernels: str) -> None:
    """Compare with float64, allowing twice the error of the plain float32 formula.

    Root mean squares, with one rounding of the largest number added, of sqrt(v_dim) at least: the
    size of `grad @ v`, which cancels in gradients; sums over all rows get one from each of them,
    at random. One wrong cell among thousands is far beyond.
    """
    grads = some_grads(inputs)
    ours = natively(inputs, terms, grads, kernels)
    truth, plain = plainly(inputs, terms, grads), plainly(inputs, terms, grads, torch.float32)
    assert torch.equal(ours["lse"] == -INF, truth["lse"] == -INF)
    for name, exact in truth.items():
        error, allowed = _error(ours[name], exact), 2 * _error(plain[name], exact)
        size = max([inputs.v.shape[3] ** 0.5, *exact[exact.isfinite()].abs().flatten().tolist()])
        summed = inputs.q.shape[0] * inputs.q.shape[2] if name in ("bias", "sinks") else 1
        rounding = torch.finfo(ours[name].dtype).eps * size * summed**0.5
        assert error <= allowed + rounding, f"{name}: error {error:.3g}, allowed {allowed:.3g}"


def _error(x: Tensor, exact: Tensor) -> float:
    gap = (x.double() - exact)[exact.isfinite()]
    return gap.square().mean().sqrt().item() if gap.numel() else 0.0
