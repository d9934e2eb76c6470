"""The planner and the two engines of `tiled`, at every edge of a tile."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attention.cases import BIASES, KEYS, LAYOUTS, MASKS, QUERIES, dense, tensors
from hitherto.attention import Alibi, Relative, attend, explicit, plan
from hitherto.attention.grid import Grid
from hitherto.mask import Causal, Keys, PerHead, Prefix, Segments, Window, bind, pairs
from strategies import seeded_case

OPTIONS = {
    "plain": {},
    "softcap": {"softcap": 1.5},
    "sinks": {"sinks": torch.tensor([0.3, -2.0, 1.0, 4.0], dtype=torch.float64)},
    "lse": {"return_lse": True},
}


@pytest.fixture
def small_tiles(monkeypatch):
    """Make tiles so small that these grids need many: stacks, merges, cut ranges, cut scores."""
    small = {"ROWS": 16, "KEY_BLOCK": 8, "MOST_KEYS": 48, "MOST_WHOLE": 40, "STACK": 200}
    for name, value in small.items():
        monkeypatch.setattr(plan, name, value)
    monkeypatch.setattr(explicit, "MOST_SCORES", 3000)
    plan.plans.cache_clear()
    yield
    plan.plans.cache_clear()


def _everything(given, mask, backend, bias=None, **options):
    """Return outputs and the gradients of every tensor of a call."""
    q, k, v, grad = given
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    match bias:
        case Alibi(slopes=leaf):
            leaves.append(leaf.double().clone().requires_grad_())
            bias = Alibi(leaves[-1])
        case Relative(table=leaf, first=first):
            leaves.append(leaf.double().clone().requires_grad_())
            bias = Relative(leaves[-1], first)
        case torch.Tensor():
            bias = bias.double().clone().requires_grad_()
            leaves.append(bias)
    if "sinks" in options:
        options = options | {"sinks": options["sinks"].clone().requires_grad_()}
        leaves.append(options["sinks"])
    got = attend(*leaves[:3], mask, bias=bias, backend=backend, **options)
    outs = got if isinstance(got, tuple) else (got,)
    grads = [grad] if len(outs) == 1 else [grad, grad[..., 0].masked_fill(outs[1].isinf(), 0.0)]
    return [*outs, *torch.autograd.grad(outs, leaves, grads)]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("name", MASKS)
def test_many_small_tiles_give_the_reference_with_all_gradients(name):
    """Merging, stacking and the gradients of bias, sinks and lse, across many tile edges.

    It caught two parts of the same rows in one stack: the second overwrote the first.
    """
    torch.manual_seed(3)
    turn = list(MASKS).index(name)
    for i, (layout, option) in enumerate(zip(LAYOUTS, OPTIONS, strict=True)):
        kind = list(BIASES)[(i + turn) % len(BIASES)]
        given = tensors(layout, QUERIES, KEYS)
        bias = BIASES[kind](4, QUERIES, KEYS)
        exact = _everything(given, MASKS[name], "reference", bias, **OPTIONS[option])
        ours = _everything(given, MASKS[name], "tiled", bias, **OPTIONS[option])
        torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1), (1, 129), (127, 127), (128, 128), (129, 129), (129, 257),
                                   (5, 131), (255, 256), (300, 301)], ids=str)  # fmt: skip
@pytest.mark.parametrize("mask", [Causal() & (Window(100) | Prefix(3)), Causal() | Prefix(65),
                                  Causal() & ~Keys(range(64, 128))], ids=str)  # fmt: skip
def test_shapes_around_the_edge_of_a_tile(mask, shape):
    """Off-by-one at a block's edge hides in multiples of the block."""
    given = tensors("gqa", *shape)
    exact = _everything(given, mask, "reference")
    torch.testing.assert_close(_everything(given, mask, "tiled"), exact, rtol=1e-10, atol=1e-10)


def test_rows_with_more_keys_than_a_tile_are_merged():
    """Beyond MOST_KEYS a row is cut into ranges without a mask and the masked rest."""
    given = tensors("gqa", 150, 5000)
    mask = Causal() & ~Keys([range(10, 11), range(3000, 3001)])
    jobs = plan.plans(mask, Grid(q_start=4850, q_len=150, k_len=5000), (2, 4, 2), "whole")[0].jobs
    assert {job.alone for job in jobs} == {False}
    assert {job.seen is None for job in jobs} == {True, False}
    exact = _everything(given, mask, "reference")
    torch.testing.assert_close(_everything(given, mask, "tiled"), exact, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("mask", "jobs", "waste"),
    [
        (Causal() & Window(256), 5, 1.6),
        (Causal() & (Window(256) | Prefix(4)), 6, 1.6),
        (Causal() & Segments.from_lengths([512] * 8), 6, 1.3),
        (Causal(), 1, 2.0),
        (Causal() & ~Keys(range(9, 10)), 400, 1.2),
    ],
    ids=str,
)
def test_plan_stacks_like_tiles_and_reads_little_that_is_hidden(mask, jobs, waste):
    """A plan that visits every block would be right, and as slow as a dense mask."""
    grid = Grid(q_start=0, q_len=4096, k_len=4096)
    (one,) = plan.plans(mask, grid, (1, 8, 1), "whole")
    cells = sum(job.count * job.shape[0] * job.shape[1] for job in one.jobs)
    assert len(one.jobs) <= jobs
    assert cells <= waste * pairs(bind(mask, 4096, 4096))


@pytest.mark.parametrize("name", MASKS)
def test_plan_covers_every_visible_cell_once(name):
    """A cell in two jobs counts twice in the softmax; one in none is lost."""
    grid = Grid(q_start=KEYS - QUERIES, q_len=QUERIES, k_len=KEYS)
    seen = dense(MASKS[name], QUERIES, KEYS).expand(2, 4, -1, -1).flatten(0, 1).numpy()
    count = np.zeros(seen.shape, int)
    for one in plan.plans(MASKS[name], grid, (2, 4, 2), "pattern"):
        heads = np.arange(8) if one.heads is None else one.heads.numpy()
        for job in one.jobs:
            rows, keys = (
                np.arange(at.start, at.stop) if isinstance(at, slice) else at.numpy()
                for at in (job.rows, job.keys)
            )
            cells = np.ones(job.shape, bool) if job.seen is None else job.seen
            for r, c in zip(np.split(rows, job.count), np.split(keys, job.count), strict=True):
                count[np.ix_(heads, r, c)] += cells
    assert np.array_equal(count, seen.astype(int))


class _Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation took or returned."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in tree_leaves((result, args, kwargs)):
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return result


@pytest.mark.parametrize("mask", [Causal() & (Window(64) | Prefix(4)), Causal()], ids=str)
@pytest.mark.parametrize("options", [{}, {"softcap": 5.0}, {"bias": Alibi.geometric(1)}], ids=str)
def test_no_array_of_queries_by_keys_exists(monkeypatch, mask, options):
    """The promise of linear memory; the reference, as control, does hold one."""
    monkeypatch.setattr(explicit, "MOST_SCORES", 1 << 16)
    length = 2048
    q, k, v = (torch.randn(1, 1, length, 8, requires_grad=True) for _ in range(3))
    found = {}
    for backend in ("tiled", "reference"):
        with _Largest() as largest:
            attend(q, k, v, mask, backend=backend, **options).sum().backward()
        found[backend] = largest.numel
    assert found["tiled"] <= length * length / 8
    assert found["reference"] >= length * length


@pytest.mark.parametrize("backend", ["reference", "tiled"])
@pytest.mark.parametrize("options", [{}, {"softcap": 1.0, "sinks": True}, {"bias": "relative"},
                                     {"bias": "alibi"}, {"bias": "tensor"}], ids=str)  # fmt: skip
def test_gradcheck_passes_in_float64(backend, options):
    """Finite differences know nothing of the formulas of the backward pass, lse included."""
    torch.manual_seed(0)
    q, k, v, _ = tensors("wide_v", 5, 7)
    q, k, v = q[:1, :2, :, :3], k[:1, :1, :, :3], v[:1, :1, :, :2]
    leaves = [q, k, v]
    mask = Causal() & Window(4) & ~Keys(range(2, 4))
    extra = {
        "relative": lambda: torch.randn(2, 5, dtype=torch.float64),
        "alibi": lambda: torch.rand(2, dtype=torch.float64),
        "tensor": lambda: torch.randn(2, 1, 7, dtype=torch.float64),
    }
    if "bias" in options:
        leaves.append(extra[options["bias"]]())
    if "sinks" in options:
        leaves.append(torch.randn(2, dtype=torch.float64))

    def call(q, k, v, *rest):
        kind = options.get("bias")
        wrap = {None: lambda _: None, "relative": Relative, "alibi": Alibi, "tensor": lambda x: x}
        out, lse = attend(q, k, v, mask, softcap=options.get("softcap"), return_lse=True,
                          bias=wrap[kind](rest[0] if rest else None), backend=backend,
                          sinks=rest[-1] if "sinks" in options else None)  # fmt: skip
        return out, lse.masked_fill(lse == -torch.inf, 0.0)

    assert torch.autograd.gradcheck(call, [x.detach().requires_grad_() for x in leaves])


def test_partial_groups_of_heads_share_keys_rightly():
    """With GQA and per-head masks, heads of one kv head may follow different plans."""
    mask = PerHead((Causal(), Window(3), Causal(), Causal() & Window(50)))
    given = tensors("gqa", QUERIES, KEYS)
    exact = _everything(given, mask, "reference")
    torch.testing.assert_close(_everything(given, mask, "tiled"), exact, rtol=1e-10, atol=1e-10)


SIZES = (1, 2, 5, 15, 16, 17, 31, 48, 65, 97)


def _compare_random(seed: int) -> None:
    case = seeded_case(seed, sizes=SIZES, leaves=8, batch=2, heads=4)
    random = torch.Generator().manual_seed(seed)
    queries, keys = case.q_len, case.k_len
    given = [torch.randn(2, heads, n, 3, generator=random, dtype=torch.float64)
             for heads, n in ((4, queries), (2, keys), (2, keys), (4, queries))]  # fmt: skip
    options = {"q_start": case.q_start, **list(OPTIONS.values())[seed % 4]}
    exact = _everything(given, case.mask, "reference", **options)
    ours = _everything(given, case.mask, "tiled", **options)
    torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-9, msg=lambda m: f"{case}\n{m}")


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_give_the_reference(seed):
    """Up to eight masks combined, batched and per head, at odd sizes and offsets."""
    _compare_random(seed)


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_two_thousand_random_expressions_give_the_reference():
    """The same, until a rare combination shows."""
    for seed in range(1000, 3000):
        _compare_random(seed)
