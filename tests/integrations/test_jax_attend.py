"""JAX attention over tiles: equal to the reference, for every mask, with gradients."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from hitherto.attention import Alibi, Relative
from hitherto.attention import attend as torch_attend
from hitherto.errors import MaskError, Unsupported
from hitherto.mask import (
    Band,
    Causal,
    Chunks,
    Mask,
    Nothing,
    PerHead,
    Prefix,
    Segments,
    Strided,
    Table,
    Window,
)

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy

from hitherto.integrations import jax_tiles  # noqa: E402
from hitherto.integrations.jax import attend  # noqa: E402
from hitherto.integrations.jax_blockwise import compiled  # noqa: E402

_rng = np.random.default_rng(0)
Q, K = 19, 29

MASKS = {
    "causal": Causal(),
    "window": Window(6),
    "sinks": Causal() & (Window(5) | Prefix(2)),
    "documents": Causal() & Segments(np.repeat([0, 1, -1, 2], [9, 7, 6, 7])),
    "nothing": Nothing(),
    "strided": Strided(3),
    "table": Table(_rng.random((K, K)) < 0.3),
    "padded": Causal() & Segments.padded([K, 21], side="left"),
    "per_head": PerHead((Causal(), Window(4), Nothing(), Causal() & Chunks(8))),
    "both": PerHead((Causal(), Causal(), Window(8), Band(2, 3))) & Segments.padded([25, K]),
}


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch):
    """Cut small grids into several tiles, with edges that no tile fills."""
    monkeypatch.setattr(jax_tiles, "ROWS", 8)
    monkeypatch.setattr(jax_tiles, "KEYS", 8)
    jax_tiles.tiles.cache_clear()
    yield
    jax_tiles.tiles.cache_clear()


@pytest.fixture
def _few_programs(monkeypatch: pytest.MonkeyPatch):
    """Let masks share compiled programs, by visits to a tile that shows nothing, and compile fast.

    Other tests run as users do.
    """

    def padded(*grid) -> jax_tiles.Tiles:
        shown = jax_tiles.tiles(*grid)
        empty = np.zeros((80 - len(shown.patterns), *shown.patterns.shape[1:]), np.uint8)
        idle = np.zeros((80 - len(shown.places), 5), np.int32)
        idle[:, 4] = 79
        return replace(
            shown,
            places=np.concatenate([shown.places, idle]),
            patterns=np.concatenate([shown.patterns, empty]),
        )

    monkeypatch.setattr(sys.modules["hitherto.integrations.jax"], "tiles", padded)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def tensors(v_dim: int = 5, dtype=np.float32) -> list[np.ndarray]:
    """Return q, k, v of 4 heads on 2, and a gradient of the output."""
    shapes = (4, Q, 3), (2, K, 3), (2, K, v_dim), (4, Q, v_dim)
    random = np.random.default_rng(1)
    return [random.standard_normal((2, *shape)).astype(dtype) for shape in shapes]


def reference(q, k, v, grad, mask: Mask, bias=None, **options) -> list[np.ndarray]:
    """Return out, lse and gradients of our torch reference, in float64."""
    leaves = [torch.tensor(x, dtype=torch.float64).requires_grad_() for x in (q, k, v)]
    numbers = [] if bias is None else [torch.tensor(bias[1], dtype=torch.float64).requires_grad_()]
    options["bias"] = None if bias is None else bias[0](numbers[0])
    if "sinks" in options:
        options["sinks"] = torch.tensor(options["sinks"], dtype=torch.float64)
    out, lse = torch_attend(*leaves, mask, return_lse=True, backend="reference", **options)
    loss = (out * torch.tensor(grad)).sum() + lse.masked_fill(lse == -torch.inf, 0).sum()
    found = torch.autograd.grad(loss, leaves + numbers)
    return [x.detach().numpy() for x in (out, lse, *found)]


def ours(q, k, v, grad, mask: Mask, bias=None, **options) -> list[np.ndarray]:
    """Return the same of JAX, through one compiled program."""

    def call(q, k, v, *numbers):
        built = None if bias is None else bias[0](numbers[0])
        out, lse = attend(q, k, v, mask, bias=built, return_lse=True, **options)
        return (out * grad).sum() + jnp.where(lse == -jnp.inf, 0, lse).sum(), (out, lse)

    inputs = [jnp.asarray(x) for x in (q, k, v, *([] if bias is None else [bias[1]]))]
    grads, results = jax.grad(call, range(len(inputs)), has_aux=True)(*inputs)
    return [np.asarray(x) for x in (*results, *grads)]


def assert_equal(got: list, want: list, within: float = 4e-6) -> None:
    for name, one, two in zip(("out", "lse", "dq", "dk", "dv", "dbias"), got, want, strict=False):
        np.testing.assert_allclose(one, two, atol=within * max(1, np.abs(two[np.isfinite(two)]).max(
            initial=0)), rtol=0, err_msg=name)  # fmt: skip


@pytest.mark.usefixtures("_few_programs")
@pytest.mark.parametrize("name", MASKS)
def test_jax_attend_is_the_reference(name: str):
    """A tile skipped or seen twice; a GQA group on the wrong keys; NaN in an empty row."""
    assert_equal(ours(*tensors(), MASKS[name]), reference(*tensors(), MASKS[name]))


@pytest.mark.usefixtures("_few_programs")
@pytest.mark.parametrize(("kind", "name"), [("alibi", "sinks"), ("relative", "per_head")])
def test_jax_attend_has_biases_caps_and_sinks(kind: str, name: str):
    """Offsets counted from the wrong row; a bias that is capped; a sink in an empty row."""
    table = np.random.default_rng(2).standard_normal((4, 21)).astype(np.float32)
    bias = (Alibi, table[:, 0]) if kind == "alibi" else (lambda x: Relative(x, first=-15), table)
    options = {"bias": bias, "softcap": 2.0, "scale": 0.7, "sinks": table[:, 1]}
    got, want = (
        ours(*tensors(), MASKS[name], **options),
        reference(*tensors(), MASKS[name], **options),
    )
    assert_equal(got, want)


def test_jax_attend_hides_what_is_not_finite():
    """0 * NaN is NaN: a padded key must not matter, whatever it holds."""
    q, k, v, grad = tensors()
    mask = Causal() & Segments.padded([K, 21])
    for x, number in ((k, np.nan), (v, np.inf)):
        x[1, :, 22:] = number
    k[0, 0, 20], v[0, 1, 28] = np.nan, -np.inf
    got, want = ours(q, k, v, grad, mask), reference(q, k, v, grad, mask)
    assert np.isnan(want[0]).any()
    assert np.isfinite(want[0][1]).all()
    assert_equal(got, want)


@pytest.mark.usefixtures("_few_programs")
def test_jax_attend_takes_any_grid():
    """Fewer keys than queries, one query, no key at all."""
    q, k, v, _ = tensors()
    for rows, keys, start in ((Q, 7, 0), (1, K, None), (1, 0, 0)):
        part = q[:, :, :rows], k[:, :, :keys], v[:, :, :keys]
        out, lse = attend(*map(jnp.asarray, part), Window(6), q_start=start, return_lse=True)
        want = torch_attend(
            *map(torch.tensor, part), Window(6), q_start=start, return_lse=True, backend="reference"
        )
        assert_equal([out, lse], [x.numpy() for x in want])


@pytest.mark.usefixtures("_few_programs")
def test_jax_attend_compiles_vmaps_and_is_cached():
    """One program serves every mask of the same shapes; jit and vmap see one function."""
    q, k, v = (jnp.asarray(x) for x in tensors()[:3])
    eager = attend(q, k, v, Causal())
    mapped = jax.jit(jax.vmap(lambda *x: attend(*(y[None] for y in x), Causal())[0]))(q, k, v)
    np.testing.assert_allclose(mapped, eager, atol=1e-6)
    before = compiled._cache_size()
    for cut in (10, 11, 12):
        attend(q, k, v, Causal() & Segments(np.arange(K) // cut))
    assert compiled._cache_size() == before


@pytest.mark.usefixtures("_few_programs")
def test_jax_attend_keeps_the_dtype():
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in tensors()[:3])
    out, lse = attend(q, k, v, Causal(), return_lse=True)
    assert (out.dtype, lse.dtype) == (jnp.bfloat16, jnp.float32)
    want = attend(*(x.astype(jnp.float32) for x in (q, k, v)), Causal())
    np.testing.assert_allclose(out.astype(jnp.float32), want, atol=0.02)


@pytest.mark.usefixtures("_few_programs")
def test_jax_attend_is_double_in_double():
    """float64 inputs whose softmax is float32."""
    with jax.enable_x64(True):
        got = ours(*tensors(dtype=np.float64), MASKS["sinks"])
        assert got[0].dtype == np.float64
        assert_equal(got, reference(*tensors(dtype=np.float64), MASKS["sinks"]), within=1e-14)


def test_jax_tiles_are_few_and_patterns_are_shared():
    """A list that grows with the square of the length, or a pattern a tile."""
    jax_tiles.tiles.cache_clear()
    listed = jax_tiles.tiles(Causal() & Window(16), 4096, 4096, 0)
    assert len(listed.places) == 3 * 512 - 3
    assert len(listed.patterns) == 3


def test_jax_attend_refuses_what_it_has_not():
    q, k, v = (jnp.asarray(x) for x in tensors()[:3])
    with pytest.raises(Unsupported, match="must be Alibi or Relative in JAX"):
        attend(q, k, v, Causal(), bias=jnp.zeros((Q, K)))
    with pytest.raises(ValueError, match="a row for each of 4 heads"):
        attend(q, k, v, Causal(), bias=Alibi(jnp.zeros(3)))
    with pytest.raises(ValueError, match="a multiple of k's kv_heads"):
        attend(q[:, :3], k, v, Causal())
    with pytest.raises(ValueError, match="must be floats"):
        attend(q[0], k, v, Causal())
    with pytest.raises(MaskError, match="must be a mask"):
        attend(q, k, v, None)
    with pytest.raises(MaskError, match="must have q's heads"):
        attend(q, k, v, PerHead((Causal(),) * 3))
    with pytest.raises(MaskError, match="must be at most k_len = 5"):
        attend(q, k[:, :, :5], v[:, :, :5], Causal())
