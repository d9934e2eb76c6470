"""Arrays and sparse matrices, read back cell by cell."""

import numpy as np
import pytest
import torch

from hitherto.errors import MaskError
from hitherto.lowering import lower
from hitherto.mask import Causal, Nothing, Segments, evaluate
from lowering.usual import cases
from strategies import EDGES, seeded_case

CASES = [*cases(60, batch=2, heads=3), *(seeded_case(s, sizes=EDGES, leaves=3) for s in range(40))]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_arrays_hold_every_cell(case):
    """A batch axis dropped, a bit order turned, a row that does not begin on a byte."""
    want = evaluate(case.mask, case.q_pos, case.k_pos)
    for name in ("dense", "int8", "additive"):
        got = lower(case.mask, name, *case.grid)
        assert got.shape == want.shape
        assert ((got == 0) if name == "additive" else (got == 1)).tolist() == want.tolist()
    for order in ("little", "big"):
        got = lower(case.mask, "bits", *case.grid, order=order)
        assert got.shape == (*want.shape[:-1], -(-case.k_len // 8))
        bits = np.unpackbits(got, axis=-1, bitorder=order)
        np.testing.assert_array_equal(bits[..., : case.k_len], want)
        assert not bits[..., case.k_len :].any()


@pytest.mark.parametrize("case", CASES[::2], ids=range(0, len(CASES), 2))
def test_sparse_matrices_hold_every_cell(case):
    """An index counted from the batch row, or a row that sees nothing left out."""
    want = evaluate(case.mask, case.q_pos, case.k_pos)
    coo = lower(case.mask, "coo", *case.grid)
    assert coo.shape == want.shape
    np.testing.assert_array_equal(coo.index, np.stack(np.nonzero(want)))
    csr = lower(case.mask, "csr", *case.grid)
    rows = want.reshape(-1, case.k_len)
    assert csr.indptr.size == len(rows) + 1
    for row, start, stop in zip(rows, csr.indptr, csr.indptr[1:], strict=False):
        np.testing.assert_array_equal(csr.indices[start:stop], np.flatnonzero(row))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_csr_is_read_by_torch():
    """Arrays that only we can read."""
    csr = lower(Causal(), "csr", 3, 5, library="torch")
    ones = torch.ones(len(csr.indices))
    matrix = torch.sparse_csr_tensor(
        csr.indptr, csr.indices, ones, csr.shape, check_invariants=True
    )
    assert matrix.to_dense().bool().tolist() == lower(Causal(), "dense", 3, 5).tolist()


def test_additive_takes_the_dtype_that_is_asked_for():
    """A float32 mask that promotes a bfloat16 model; a smallest float nobody asked for."""
    bias = lower(Causal(), "additive", 3, 5, dtype=torch.bfloat16)
    assert bias.dtype == torch.bfloat16
    assert bias.isneginf().sum() == 3
    half = lower(Causal(), "additive", 3, 5, dtype="float16", hidden=-1e4)
    assert half.dtype == np.float16
    assert half.min() == -1e4
    assert lower(Causal(), "additive", 3, 5, library="torch").dtype == torch.float32


def test_arrays_take_empty_grids():
    """A first chunk without keys, a mask of nothing."""
    for q_len, k_len in ((0, 3), (2, 0), (0, 0)):
        assert lower(Nothing(), "dense", q_len, k_len, 0).shape == (q_len, k_len)
        assert lower(Nothing(), "csr", q_len, k_len, 0).indptr.size == q_len + 1
        assert lower(Nothing(), "bits", q_len, k_len, 0).shape == (q_len, -(-k_len // 8))
    padded = Segments.padded([0, 2], side="left", width=2)
    assert lower(padded, "dense", 2, 2).shape == (2, 1, 2, 2)


def test_arrays_refuse_what_no_memory_holds():
    """An array of a terabyte, begun and killed."""
    with pytest.raises(MaskError, match="Use a target that keeps runs"):
        lower(Causal(), "dense", 1 << 20, 1 << 20)
    with pytest.raises(ValueError, match="order must be"):
        lower(Causal(), "bits", 3, 3, order="middle")
    with pytest.raises(ValueError, match="library must be"):
        lower(Causal(), "dense", 3, 3, library="jax")
