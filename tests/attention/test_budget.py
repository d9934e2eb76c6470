"""Every mask, dtype, head layout and bias against float64, within what torch itself reaches."""

from itertools import product

import pytest
import torch

from attention.cases import (
    BIASES,
    KEYS,
    LAYOUTS,
    MASKS,
    QUERIES,
    assert_within_budget,
    gradients,
    tensors,
    torch_gradients,
)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _compare(name: str, dtype: torch.dtype, layout: str, kind: str) -> None:
    mask = MASKS[name]
    torch.manual_seed(1)
    bias = BIASES[kind](4, QUERIES, KEYS)
    q, k, v, grad = (x.to(dtype) for x in tensors(layout, QUERIES, KEYS))
    exact = gradients(*(x.double() for x in (q, k, v, grad)), mask, bias=bias, backend="reference")
    torchs = torch_gradients(q, k, v, grad, mask, bias)
    for backend in ("tiled", "sdpa", "reference"):
        ours = gradients(q, k, v, grad, mask, bias=bias, backend=backend)
        assert_within_budget(ours, torchs, exact)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_backends_stay_within_torchs_own_error(name, dtype):
    """Catches a wrong cell, a wrong merge, a sum in low precision: all show above the budget.

    Each layout meets one bias here, another one for another mask or dtype; the 16-bit types, which
    share their paths, take every other layout. The slow test below leaves nothing out.
    """
    turn = list(MASKS).index(name) + DTYPES.index(dtype)
    for i, layout in enumerate(LAYOUTS):
        if dtype != torch.float32 and (i + turn) % 2:
            continue
        _compare(name, dtype, layout, list(BIASES)[(i + turn) % len(BIASES)])


@pytest.mark.parametrize("name", MASKS)
def test_float64_backends_agree_to_float64(name):
    """float32 anywhere on the way, as in a bias or an accumulator, shows at 1e-8."""
    for layout, kind in zip(LAYOUTS, BIASES, strict=True):
        torch.manual_seed(1)
        bias = BIASES[kind](4, QUERIES, KEYS)
        given = tensors(layout, QUERIES, KEYS)
        exact = gradients(*given, MASKS[name], bias=bias, backend="reference")
        for other in (
            gradients(*given, MASKS[name], bias=bias, backend="tiled"),
            gradients(*given, MASKS[name], bias=bias, backend="sdpa"),
            torch_gradients(*given, MASKS[name], bias),
        ):
            # 1e-12: a few thousand roundings of float64.
            torch.testing.assert_close(other, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_backends_stay_within_torchs_own_error_for_every_combination(name, dtype):
    """The full product of layouts and biases."""
    for layout, kind in product(LAYOUTS, BIASES):
        _compare(name, dtype, layout, kind)


@pytest.mark.parametrize(
    "options", [{"softcap": 2.0}, {"sinks": True}, {"softcap": 3.0, "sinks": True}], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["sinks", "padded", "table", "per_head", "nothing"])
def test_tiled_with_softcap_and_sinks_stays_within_the_references_error(name, dtype, options):
    """torch has neither; the budget is then the plain computation's error in the same dtype."""
    options = dict(options)
    if "sinks" in options:
        options["sinks"] = torch.linspace(-2, 3, 4)
    q, k, v, grad = (x.to(dtype) for x in tensors("gqa", QUERIES, KEYS))
    exact = gradients(*(x.double() for x in (q, k, v, grad)), MASKS[name], backend="reference",
                      **options)  # fmt: skip
    plain = gradients(q, k, v, grad, MASKS[name], backend="reference", **options)
    ours = gradients(q, k, v, grad, MASKS[name], backend="tiled", **options)
    assert_within_budget(ours, plain, exact)
