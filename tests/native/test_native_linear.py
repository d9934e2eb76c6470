"""The small-batch linear against float64."""

import pytest
import torch

from hitherto.attention import native
from native.kernels import built, every_set

pytestmark = built


@every_set
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", range(1, 9))
@pytest.mark.parametrize(("width", "outputs"), [(1, 1), (7, 5), (64, 33), (100, 70), (129, 96)])
def test_linear_agrees_with_float64(width, outputs, rows, dtype, kernels):
    """Outputs or columns left over after whole vectors and whole groups of outputs."""
    random = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, width, generator=random).to(dtype)
    weight = torch.randn(outputs, width + 3, generator=random).to(dtype)[:, :width]
    bias = torch.randn(outputs, generator=random).to(dtype)
    exact = x.double() @ weight.double().T + bias.double()
    ours = native.linear(x, weight, bias, kernels)
    plain = x.float() @ weight.float().T + bias.float()
    rounding = (exact.to(dtype).double() - exact).abs()
    slack = 2 * (plain.double() - exact).abs().max() + 1e-6
    assert ((ours.double() - exact).abs() <= rounding + slack).all()


def test_linear_refuses_what_it_cannot_do():
    """Nine rows would be computed as eight."""
    with pytest.raises(ValueError, match="1 to 8 rows"):
        native.linear(torch.ones(9, 4), torch.ones(3, 4))
    with pytest.raises(ValueError, match="1 to 8 rows"):
        native.linear(torch.ones(1, 4), torch.ones(3, 5))
