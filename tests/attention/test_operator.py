"""attend inside torch.compile and torch.export, as one operator."""

import pytest
import torch

from hitherto.attention import Alibi, Relative, attend
from hitherto.errors import Unsupported
from hitherto.mask import Causal, Predicate, Prefix, Segments, Table, Window

MASK = Causal() & (Window(9) | Prefix(2))


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _compiled(function, backend: str = "aot_eager"):
    return torch.compile(function, fullgraph=True, backend=backend)


def _qkv(length: int = 40, dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    return [torch.randn(2, 4, length, 8, generator=random).to(dtype).requires_grad_()
            for _ in range(3)]  # fmt: skip


@pytest.mark.parametrize("backend", ["auto", "reference", "sdpa", "tiled"])
def test_compiled_call_equals_the_eager_one_with_gradients(backend):
    """One graph, no break: the operator's fake and autograd parts must fit its real one."""
    q, k, v = _qkv()

    def call(q, k, v):
        return attend(q, k, v, MASK, backend=backend)

    eager, compiled = call(q, k, v), _compiled(call)(q, k, v)
    torch.testing.assert_close(compiled, eager)
    grads = [torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (eager, compiled)]
    torch.testing.assert_close(grads[1], grads[0])


def test_compiled_call_takes_every_keyword():
    """Bias tables, sinks and lse travel as tensors and get their gradients."""
    q, k, v = _qkv()
    table, slopes, given = (torch.randn(*n, requires_grad=True) for n in ((4, 5), (4,), (4, 40, 1)))
    sinks = torch.randn(4, requires_grad=True)
    kept = torch.tensor([*range(5), *range(50, 85)])

    def call(q, k, v, leaf, sinks, wrap):
        out, lse = attend(q, k, v, MASK, bias=wrap(leaf), softcap=4.0, sinks=sinks, scale=0.3,
                          q_start=45, k_pos=kept, return_lse=True)  # fmt: skip
        return out.square().sum() + lse.square().sum()

    for leaf, wrap in ((table, Relative), (slopes, Alibi), (given, lambda x: x)):
        leaves = (q, k, v, leaf, sinks)
        eager = torch.autograd.grad(call(*leaves, wrap), leaves)
        compiled = torch.autograd.grad(_compiled(call)(*leaves, wrap), leaves)
        torch.testing.assert_close(compiled, eager)


def test_compiled_function_notices_another_mask():
    """A mask baked in as a constant without a guard would serve every later call, silently."""
    q, k, v = _qkv()
    call = _compiled(lambda q, k, v, mask: attend(q, k, v, mask))
    for mask in (
        Window(3),
        Window(30),
        Window(3),
        Segments([0] * 40),
        Segments([0] * 30 + [1] * 10),
    ):
        torch.testing.assert_close(call(q, k, v, mask), attend(q, k, v, mask))


def test_hidden_nan_is_harmless_in_a_compiled_call():
    """The operator's backward has its own way for numbers that are not finite."""
    q, k, v = _qkv()
    with torch.no_grad():
        v[:, :, 39] = float("nan")
    call = _compiled(lambda q, k, v: attend(q, k, v, MASK, backend="tiled"))
    out = call(q, k, v)[:, :, :39]
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    assert out.isfinite().all()
    assert all(grad[:, :, :39].isfinite().all() for grad in grads)


class _Layer(torch.nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, q, k, v):
        return attend(q, k, v, self.mask)


def test_exported_program_holds_one_operator_and_any_length():
    """Export with a dynamic length: positions are found when the operator runs."""
    q, k, v = (x.detach() for x in _qkv())
    length = torch.export.Dim("length", min=2, max=4096)
    program = torch.export.export(_Layer(MASK), (q, k, v), dynamic_shapes=[{2: length}] * 3)
    assert "hitherto.attend" in str(program.graph)
    assert str(MASK) in str(program.graph)
    other = [x.detach() for x in _qkv(77)]
    torch.testing.assert_close(program.module()(*other), attend(*other, MASK))


def test_predicate_is_refused_by_name():
    """A function has no text; a graph that named it could not be loaded elsewhere."""
    q, k, v = (x.detach() for x in _qkv())
    layer = _Layer(Causal() & Predicate(lambda q, k: q >= k, "mine"))
    with pytest.raises(Unsupported, match=r"Predicate\(mine\)"):
        torch.export.export(layer, (q, k, v))
    with pytest.raises(Exception, match=r"Predicate\(mine\)"):
        torch.compile(layer, fullgraph=True, backend="eager")(q, k, v)


def test_operator_passes_torchs_own_checks():
    """Schema, fake tensors, autograd registration and dynamic shapes, for outputs and gradients."""
    q, k, v = _qkv(20)
    mask = str(Causal() & Table([[True] * 20] * 20))
    arguments = (q, k, v, None, None, None, mask, "none", 0, None, None, None, True, "auto")
    torch.library.opcheck(torch.ops.hitherto.attend.default, arguments)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, inside inductor
def test_inductor_runs_the_operator():
    """The default compiler also checks the strides that the fake part promises."""
    q, k, v = _qkv()
    call = _compiled(lambda q, k, v: attend(q.sin(), k, v, MASK).cos(), "inductor")
    out = call(q, k, v)
    torch.testing.assert_close(out, attend(q.sin(), k, v, MASK).cos())
    out.sum().backward()
