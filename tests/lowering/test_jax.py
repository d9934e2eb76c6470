"""JAX: every mask through `jax.nn.dot_product_attention` itself, cell by cell."""

import numpy as np
import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import (
    Band,
    BlockCausal,
    Causal,
    Everything,
    Keys,
    Mask,
    Nothing,
    PerHead,
    Prefix,
    Queries,
    Segments,
    Window,
)
from lowering.drawn import GRIDS, drawn, wanted

jnn = pytest.importorskip("jax.nn", reason="JAX is not installed")


def seen(said: dict, q_len: int, k_len: int, batch: int = 1, heads: int = 1) -> np.ndarray:
    """Return the weight of every cell in jax.nn: equal scores, and values that name their key."""
    q = np.zeros((batch, q_len, heads, k_len), np.float32)
    k = np.zeros((batch, k_len, 1, k_len), np.float32)
    v = np.broadcast_to(np.eye(k_len, dtype=np.float32)[:, None], k.shape)
    out = jnn.dot_product_attention(q, k, v, **said)
    return np.asarray(out).swapaxes(1, 2)


def first_empty(cells: np.ndarray) -> int | None:
    """Find an empty row that comes before one that sees a key in any head."""
    some = cells.any(-1)
    for row in some:
        real = np.flatnonzero(row.any(0)).max(initial=-1) + 1
        if not row[:, :real].all():
            return int(np.argmin(row[:, :real].all(0)))
    return None


@pytest.fixture(autouse=True)
def _compile_fast():
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.parametrize("grid", [GRIDS[0], GRIDS[1], GRIDS[3]])
def test_jax_attention_shows_what_the_mask_shows(grid: tuple):
    """A window counted from the corner, a padding length off by one, a mean in an empty row."""
    for case in drawn(grid, 30, batch=2, heads=2):
        cells = wanted(case, 2, 2)
        if (row := first_empty(cells)) is not None:
            with pytest.raises(Unsupported, match=f"query {case.q_start + row}, key 0"):
                lower(case.mask, "jax_attention", *case.grid, batch=2)
            continue
        said = lower(case.mask, "jax_attention", *case.grid, batch=2)
        got = seen(said, *case.grid[:2], 2, 2)
        assert np.array_equal(got > 0, cells), (case, said)


@pytest.mark.parametrize(
    ("mask", "grid", "said"),
    [
        (Everything(), (5, 7), {}),
        (Causal(), (7, 7), {"is_causal": True}),
        (Causal(), (3, 7), {"local_window_size": (2, 4)}),
        (Window(3), (7, 7), {"local_window_size": (2, 0)}),
        (Window(3), (3, 7), {"local_window_size": (-2, 4)}),
        (Band(2, 1), (7, 7), {"local_window_size": (2, 1)}),
        (Segments.padded([5, 7]) & Causal(), (7, 7), {"is_causal", "query_seq_lengths"}),
        (Keys(np.arange(7) < [[5], [7]]), (3, 7), {"key_value_seq_lengths"}),
        (Queries([range(4)]) & Window(2), (7, 7), {"local_window_size", "query_seq_lengths"}),
        (Causal() | Prefix(3), (7, 7), {"mask"}),
        (PerHead((Causal(), Window(2))), (7, 7), {"mask"}),
    ],
)
def test_jax_attention_takes_the_smallest_arguments(mask: Mask, grid: tuple, said: dict | set):
    """A dense mask where a flag would do keeps jax.nn from its fused kernels."""
    got = lower(mask, "jax_attention", *grid)
    assert (got if isinstance(said, dict) else set(got)) == said


def test_jax_attention_says_a_window_over_a_million_tokens():
    """A lowering that looks at cells."""
    n = 1 << 20
    assert lower(Window(4096), "jax_attention", n, n) == {"local_window_size": (4095, 0)}


def test_jax_attention_refuses_empty_rows_because_they_are_means():
    """Control: the reason for the refusal is true, and can be accepted by name."""
    mask = BlockCausal(2) - Queries([range(1, 2)])
    with pytest.raises(Unsupported, match="query 1, key 0 hidden"):
        lower(mask, "jax_attention", 5, 5)
    got = seen(lower(mask, "jax_attention", 5, 5, empty="mean"), 5, 5)[0, 0]
    np.testing.assert_allclose(got[1], 0.2, rtol=1e-6)
    with pytest.raises(ValueError, match=r"empty must be 'refuse' or 'mean'"):
        lower(mask, "jax_attention", 5, 5, empty="zeros")


def test_jax_array_is_the_mask():
    import jax

    array = lower(Window(3), "jax", 3, 5)
    assert isinstance(array, jax.Array)
    assert np.array_equal(array, [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]])
    assert not np.asarray(lower(Nothing(), "jax", 2, 3)).any()
