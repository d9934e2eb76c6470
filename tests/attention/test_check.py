"""Every bad call is refused at the door, in four parts, and says what to do."""

import numpy as np
import pytest
import torch

from hitherto.attention import Alibi, Relative, attend
from hitherto.errors import MaskError
from hitherto.mask import Causal, PerHead, Segments, Table

T = torch.randn


def _call(q=None, k=None, v=None, mask=None, **options):
    q = T(2, 4, 5, 8) if q is None else q
    k = T(2, 2, 6, 8) if k is None else k
    v = T(2, 2, 6, 3) if v is None else v
    return attend(q, k, v, Causal() if mask is None else mask, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": T(4, 5, 8)}, "q must be a tensor .batch, heads"),
        ({"q": np.zeros((2, 4, 5, 8))}, "q must be a tensor.*got ndarray"),
        ({"q": torch.ones(2, 4, 5, 8, dtype=torch.int32)}, "q must be float32.*got torch.int32"),
        ({"q": T(2, 4, 5, 8).to(torch.complex64)}, "q must be float32"),
        ({"k": T(2, 2, 6, 8).double()}, "must share one dtype.*float64"),
        ({"q": T(2, 3, 5, 8)}, "multiple of k's kv_heads.*q .2, 3, 5, 8."),
        ({"k": T(2, 2, 6, 7)}, "k must have the head_dim of q"),
        ({"v": T(2, 2, 7, 3)}, "v must have the batch, kv_heads and keys of k"),
        ({"v": T(2, 2, 6, 0)}, "no width may be 0"),
        ({"k": T(1, 2, 6, 8), "v": T(1, 2, 6, 3)}, "k must have the batch of q"),
        ({"k": T(2, 0, 6, 8), "v": T(2, 0, 6, 3)}, "multiple of k's kv_heads"),
        ({"scale": float("nan")}, "scale must be a finite number; got nan"),
        ({"scale": float("inf")}, "scale must be a finite number"),
        ({"scale": "big"}, "scale must be a finite number"),
        ({"softcap": 0.0}, "softcap must be a finite number > 0"),
        ({"softcap": -1.0}, "softcap must be a finite number > 0"),
        ({"sinks": torch.zeros(2)}, r"sinks must be a floating point tensor of shape \(4,\)"),
        ({"sinks": torch.zeros(4, dtype=torch.long)}, "sinks must be a floating point"),
        ({"sinks": 1.0}, "sinks must be a floating point tensor"),
        ({"bias": Alibi(torch.zeros(3))}, r"Alibi.slopes\) must fit"),
        ({"bias": Relative(torch.zeros(3, 5))}, r"Relative.table\) must fit"),
        ({"bias": torch.zeros(3, 6)}, "bias must fit .batch, heads, queries, keys. = .2, 4, 5, 6."),
        ({"bias": torch.zeros(1, 1, 1, 1, 1)}, "bias must fit"),
        ({"bias": torch.ones(5, 6, dtype=torch.bool)}, "bias must be floating point; a mask is no"),
        ({"bias": 3.0}, "bias must be Alibi, Relative or a tensor"),
        ({"k_pos": torch.arange(5)}, "k_pos must hold 6 increasing ints"),
        ({"k_pos": torch.tensor([0, 1, 1, 2, 3, 4])}, "k_pos must hold 6 increasing ints"),
        ({"k_pos": torch.arange(6) - 1}, "k_pos must hold 6 increasing ints >= 0"),
        ({"k_pos": torch.arange(6.0)}, "k_pos must hold 6 increasing ints"),
    ],
)
def test_bad_argument_is_refused_by_name(arguments, message):
    """Argument, rule, what came, what to do: a traceback from a kernel says none of it."""
    with pytest.raises(ValueError, match=message) as caught:
        _call(**arguments)
    assert "; got " in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask": torch.ones(5, 6, dtype=torch.bool)}, r"mask must be a mask.*Table\(array\)"),
        ({"mask": "Causal()"}, "mask must be a mask; got str"),
        ({"mask": Segments.padded([3, 6, 2])}, r"mask must have q's batch \(2\) or 1; got 3"),
        ({"mask": PerHead((Causal(),) * 3)}, r"mask must have q's heads \(4\) or 1; got 3"),
        ({"mask": Segments([0, 0, 0])}, "position 5"),
        ({"mask": Table(np.ones((6, 5), bool))}, "position 5"),
        ({"q": T(2, 4, 9, 8)}, "q must have at most 6 queries unless q_start is given"),
        ({"q_start": -1}, "q_start must be an int >= 0"),
        ({"q_start": 1.5}, "q_start must be an int >= 0"),
        ({"q_start": 9, "mask": Segments([0] * 6)}, "position 13"),
    ],
)
@pytest.mark.parametrize("backend", ["reference", "sdpa", "tiled"])
def test_mask_that_does_not_fit_is_refused(arguments, message, backend):
    """Positions beyond a mask's data are an error on every backend, never a guess."""
    with pytest.raises(MaskError, match=message):
        _call(**arguments, backend=backend)


def test_none_is_no_mask():
    """None means "causal", "everything" or "as the kernel likes" elsewhere."""
    with pytest.raises(MaskError, match=r"got None. Write Causal\(\) or Everything\(\)"):
        attend(T(1, 1, 2, 4), T(1, 1, 2, 4), T(1, 1, 2, 4), None)
