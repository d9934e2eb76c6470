"""The oracle itself: transforms that a plain formula allows, and layouts of memory."""

import pytest
import torch

from attention.cases import MASKS, tensors
from hitherto.attention import attend
from hitherto.errors import Unsupported
from hitherto.mask import Causal, Nothing, Prefix, Table, Window

BACKENDS = ("reference", "sdpa", "tiled")


def test_reference_works_under_vmap():
    """One more axis in front gives each slice's own result."""
    q, k, v = (torch.randn(3, 2, 4, 6, 8) for _ in range(3))

    def call(q, k, v):
        return attend(q, k, v, Causal() & Window(3), backend="reference")

    mapped = torch.func.vmap(call)(q, k, v)
    torch.testing.assert_close(mapped, torch.stack([call(*x) for x in zip(q, k, v, strict=True)]))


def test_jacobian_of_the_reference_is_zero_where_hidden():
    """The audit reads which key reaches which query from such Jacobians."""
    x = torch.randn(1, 1, 6, 4, dtype=torch.float64)
    jacobian = torch.func.jacrev(lambda v: attend(x, x, v, Causal(), backend="reference"))(x)
    reaches = jacobian.abs().sum((3, 7))[0, 0, :, 0, 0] > 0
    assert torch.equal(reaches, torch.ones(6, 6, dtype=torch.bool).tril())


def test_reference_can_be_differentiated_twice():
    """Second-order methods need it; tiled raises, where silence would drop a term."""
    x = torch.randn(1, 1, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: attend(x, x, x, Causal(), backend="reference"), x)
    out = attend(x, x, x, Causal() & Window(2), backend="tiled")
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(Unsupported, match='backend="reference"'):
        (first.sum() + x.sum()).backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_strides_give_the_same_result(backend):
    """Heads after positions, slices of a cache, a last axis that is not contiguous."""
    q, k, v, _ = (x.float() for x in tensors("gqa", 140, 150))
    mask = Causal() & (Window(40) | Prefix(2))
    expected = attend(q, k, v, mask, backend=backend)
    swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    slices = [torch.cat([x, x], 2)[:, :, : x.shape[2]] for x in (q, k, v)]
    sideways = [x.mT.contiguous().mT for x in (q, k, v)]
    for variant in (swapped, slices, sideways):
        torch.testing.assert_close(attend(*variant, mask, backend=backend), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)], ids=str)
def test_zero_sizes_give_empty_results_or_zeros(backend, shape):
    """No batch or no queries: nothing. No keys: every row is empty, so zeros."""
    batch, queries, keys = shape
    q = torch.randn(batch, 2, queries, 4, requires_grad=True)
    k = torch.randn(batch, 2, keys, 4, requires_grad=True)
    out = attend(q, k, k, Causal(), backend=backend)
    assert out.shape == q.shape
    assert (out == 0).all() or keys
    grads = torch.autograd.grad(out.sum(), (q, k))
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [0.0, -1.3, 40.0])
def test_any_finite_scale_is_exact(backend, scale):
    """Scores of 1000 need the max taken out; a scale of 0 gives the mean of what is visible."""
    q, k, v, _ = (x.float() for x in tensors("mha", 20, 30))
    exact = attend(q.double(), k.double(), v.double(), Causal(), scale=scale, backend="reference")
    out = attend(q, k, v, Causal(), scale=scale, backend=backend)
    torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_positions_with_gaps_equal_the_same_rows_of_the_whole(backend):
    """A cache that forgot hidden keys must give what the full keys give, at absolute positions."""
    mask = Causal() & (Window(16) | Prefix(4))
    q, k, v, _ = (x.float() for x in tensors("gqa", 5, 60))
    whole = attend(q, k, v, mask, backend=backend)
    kept = torch.tensor([0, 1, 2, 3, *range(40, 60)])
    out = attend(q, k[:, :, kept], v[:, :, kept], mask, k_pos=kept, backend=backend)
    torch.testing.assert_close(out, whole)
    numpy = attend(q, k[:, :, kept], v[:, :, kept], mask, k_pos=kept.numpy(), backend=backend)
    torch.testing.assert_close(numpy, whole)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("q_start", [0, 13, 55])
def test_q_start_places_the_queries(backend, q_start):
    """Without it queries are the last positions; with it they are where it says."""
    mask = Causal() & Window(9)
    q, k, v, _ = (x.float() for x in tensors("mha", 5, 60))
    seen = torch.zeros(60, 60, dtype=torch.bool)
    for i in range(60):
        seen[i, max(0, i - 8) : i + 1] = True
    expected = attend(q, k, v, Table(seen[q_start : q_start + 5].numpy()), q_start=0,
                      backend="reference")  # fmt: skip
    out = attend(q, k, v, mask, q_start=q_start, backend=backend)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(70, 90), (90, 90), (1, 5)], ids=str)
def test_causal_from_row_0_of_a_wider_grid_is_upper_left(backend, shape):
    """Kernels that know "causal" by name align it to the first row or to the last key."""
    queries, keys = shape
    q, k, v, _ = (x.float() for x in tensors("gqa", queries, keys))
    table = torch.ones(queries, keys, dtype=torch.bool).tril()
    expected = attend(q, k, v, Table(table.numpy()), q_start=0, backend="reference")
    out = attend(q, k, v, Causal(), q_start=0, backend=backend)
    torch.testing.assert_close(out, expected)


def test_lse_is_float32_for_16_bit_inputs():
    """Rounded to bfloat16 it could not merge partial results."""
    for backend, dtype in (("reference", torch.bfloat16), ("tiled", torch.float16)):
        q = torch.randn(1, 1, 4, 8, dtype=dtype)
        out, lse = attend(q, q, q, Causal(), return_lse=True, backend=backend)
        assert out.dtype == dtype
        assert lse.dtype == torch.float32
        assert lse.shape == (1, 1, 4)


def test_halves_of_the_keys_merge_by_lse():
    """What context parallelism does: two disjoint parts, joined by their lse."""
    q, k, v, _ = tensors("mha", 20, 40)
    whole, total = attend(q, k, v, Causal(), return_lse=True)
    left, one = attend(q, k[:, :, :33], v[:, :, :33], Causal(), q_start=20, return_lse=True)
    right, two = attend(q, k[:, :, 33:], v[:, :, 33:], Causal(), q_start=20,
                        k_pos=torch.arange(33, 40), return_lse=True)  # fmt: skip
    torch.testing.assert_close(torch.logaddexp(one, two), total)
    merged = left * (one - total).exp()[..., None] + right * (two - total).exp()[..., None]
    torch.testing.assert_close(merged, whole)


def test_nothing_is_visible_under_nothing():
    """The whole grid empty: no job, no kernel, zeros and zero gradients."""
    for backend in BACKENDS:
        x = torch.randn(1, 2, 3, 4, requires_grad=True)
        out = attend(x, x, x, Nothing(), backend=backend)
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert (out == 0).all()
        assert (grad == 0).all()


def test_masks_of_the_table_are_all_tried():
    """A mask added to the library must be added to the table of cases."""
    import hitherto.mask as public

    used = {type(node).__name__ for mask in MASKS.values() for node in _nodes(mask)}
    nodes = {n for n in dir(public) if isinstance(getattr(public, n), type)
             and issubclass(getattr(public, n), public.Mask)}  # fmt: skip
    assert nodes - used <= {"Mask", "Minus", "Not", "Xor"}


def _nodes(mask):
    yield mask
    for name in ("left", "right", "mask"):
        if hasattr(mask, name):
            yield from _nodes(getattr(mask, name))
    for part in getattr(mask, "masks", ()):
        yield from _nodes(part)
