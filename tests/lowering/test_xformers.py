"""xFormers' bias classes, materialised by xFormers itself, compared bit for bit."""

import importlib.util
from itertools import product

import numpy as np
import pytest
import torch

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import Band, Causal, Prefix, Segments, Table, Window
from lowering.test_packed import compositions
from lowering.usual import cases, cells, packed_cells

if importlib.util.find_spec("xformers") is None:
    pytest.skip("xformers is not installed: pip install xformers==0.0.35", allow_module_level=True)

from xformers.ops.fmha import attn_bias

CASES = [*cases(240, batch=2), *cases(60, batch=3, heads=2), *cases(100)]
MASK = "LowerTriangular", "LocalAttention"


def materialised(bias, shape: tuple[int, int]) -> np.ndarray:
    got = bias.materialize(shape)
    assert ((got == 0) | got.isneginf()).all()
    return (got == 0).numpy()


def test_xformers_classes_materialise_to_the_mask():
    """A window that counts the query twice; the class of the other corner."""
    classes = set()
    for case in CASES:
        try:
            call = lower(case.mask, "xformers", *case.grid)
        except Unsupported:
            continue
        want = cells(case)
        if call is None:
            assert want.all()
            continue
        bias = call()
        classes.add(type(bias).__name__)
        if type(bias).__name__.startswith(MASK):
            got = materialised(bias, want.shape[2:])
            assert np.array_equal(np.broadcast_to(got, want.shape), want), case
        else:
            want = packed_cells(case)
            assert np.array_equal(materialised(bias, want.shape), want), case
    assert len(classes) > 8, classes


@pytest.mark.parametrize(
    ("mask", "grid", "name"),
    [
        (Causal(), (5, 5), "LowerTriangularMask"),
        (Causal(), (5, 9), "LowerTriangularFromBottomRightMask"),
        (Causal(), (5, 9, 0), "LowerTriangularMask"),
        (Causal() & Window(3), (5, 9), "LowerTriangularFromBottomRightLocalAttentionMask"),
        (Band(3, 2), (7, 9), "LocalAttentionFromBottomRightMask"),
        (Segments.from_lengths([3, 4]), (7, 7), "BlockDiagonalMask"),
        (Causal() & Segments.from_lengths([3, 4]), (7, 7), "BlockDiagonalCausalMask"),
        (Causal() & Window(2) & Segments.from_lengths([3, 4]), (7, 7),
         "BlockDiagonalCausalLocalAttentionMask"),
        (Causal() & Segments([0, 0, 1, 1, 1]), (4, 5), "BlockDiagonalCausalFromBottomRightMask"),
        (Causal() & Segments.padded([3, 6], side="left", width=6), (2, 6),
         "BlockDiagonalCausalWithOffsetGappyKeysMask"),
    ],
)  # fmt: skip
def test_xformers_takes_the_plainest_class(mask, grid, name):
    """Twenty-two classes, and the wrong one of them."""
    assert type(lower(mask, "xformers", *grid)()).__name__ == name


def test_xformers_refuses_empty_rows_and_what_it_has_no_class_for():
    """NaN in a padding row; a prefix dropped."""
    with pytest.raises(Unsupported, match="sees no key"):
        lower(Causal() & Segments([-1, 0, 0]), "xformers", 3, 3)
    with pytest.raises(Unsupported, match="query 1, key 2 hidden"):
        lower(Causal() | Prefix(2), "xformers", 4, 4)


def every_class(queries: int, keys: int) -> set[bytes]:
    """Every mask that a class of a few lengths and windows materialises to on a grid."""
    plain = [attn_bias.LowerTriangularMask(), attn_bias.LowerTriangularFromBottomRightMask()]
    plain += [plain[1].make_local_attention(w) for w in range(1, keys + queries)]
    plain += [attn_bias.LocalAttentionFromBottomRightMask(*side)
              for side in product(range(keys + queries), repeat=2)]  # fmt: skip
    for cut in compositions(queries, keys):
        base = attn_bias.BlockDiagonalMask.from_seqlens([q for q, _ in cut], [k for _, k in cut])
        makers = [base.make_causal, base.make_causal_from_bottomright]
        makers += [lambda w=w, f=f: f(w) for w in range(1, keys + queries)
                   for f in (base.make_local_attention,
                             base.make_local_attention_from_bottomright)]  # fmt: skip
        plain.append(base)
        for make in makers:
            try:
                plain.append(make())
            except (ValueError, RuntimeError):
                continue
    found = {materialised(bias, (queries, keys)).tobytes() for bias in plain}
    return found | {np.ones((queries, keys), bool).tobytes()}


@pytest.mark.parametrize("grid", [(2, 3), (3, 2)])
def test_xformers_refuses_just_what_no_class_gives(grid):
    """A mask refused although a class says it: all masks without empty rows, all classes."""
    can = every_class(*grid)
    for number in range(1 << (grid[0] * grid[1])):
        cell = np.array([number >> i & 1 for i in range(grid[0] * grid[1])], bool).reshape(grid)
        if not cell.any(1).all():
            continue
        try:
            call = lower(Table(cell), "xformers", *grid, 0)
        except Unsupported:
            assert cell.tobytes() not in can, cell
            continue
        assert call is None or np.array_equal(materialised(call(), grid), cell)


def test_xformers_builds_on_the_device_it_is_told():
    """A call whose class takes more than the mask."""
    call = lower(Segments.from_lengths([3, 4]), "xformers", 7, 7)
    assert call(device=torch.device("cpu")).q_seqinfo.seqstart.tolist() == [0, 3, 7]
