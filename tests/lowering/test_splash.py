"""splash: the masks its own code materialises, and its kernel in interpret mode."""

import sys

import numpy as np
import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.lowering.splash import MODULE
from hitherto.mask import (
    Band,
    Causal,
    Chunks,
    Everything,
    Keys,
    Mask,
    Nothing,
    PerHead,
    Prefix,
    Segments,
    Shift,
    Window,
    evaluate,
)
from lowering.drawn import GRIDS, drawn, wanted

pytest.importorskip("jax", reason="JAX is not installed")


@pytest.mark.parametrize("grid", GRIDS)
def test_splash_mask_is_the_mask_on_any_tile(grid: tuple):
    """An offset applied twice; a tile cut one row too far."""
    for heads in (1, 2):
        for case in drawn(grid, 30, heads=heads):
            cells = wanted(case)
            if not cells.any(-1).all():
                with pytest.raises(Unsupported, match="sees no key"):
                    lower(case.mask, "splash", *case.grid)
                continue
            mask = lower(case.mask, "splash", *case.grid)
            rows, keys = slice(case.q_len // 3, None), slice(case.k_len // 4, case.k_len // 2 + 1)
            for tile in ((slice(None), slice(None)), (rows, keys)):
                at = (slice(None), *tile) if len(mask.shape) == 3 else tile
                got = mask[at] if len(mask.shape) == 3 else mask[at][None]
                assert np.array_equal(got, cells[0][(slice(None), *tile)]), (case, mask, tile)


@pytest.mark.parametrize(
    ("mask", "grid", "name"),
    [
        (Everything(), (5, 7), "FullMask"),
        (Causal(), (5, 7), "CausalMask"),
        (Window(3), (5, 7), "LocalMask"),
        (Band(None, 2), (5, 9), "LocalMask"),
        (Causal() & Chunks(4), (13, 13), "ChunkedCausalMask"),
        (Causal() & Chunks(4), (5, 13), "SpansMask"),
        (Causal() | Prefix(3), (7, 7), "SpansMask"),
        (PerHead((Causal(), Window(2))), (7, 7), "MultiHeadMask"),
    ],
)
def test_splash_uses_the_classes_that_its_kernel_computes(mask: Mask, grid: tuple, name: str):
    """A mask that is loaded from memory where it could be computed."""
    assert type(lower(mask, "splash", *grid)).__name__ == name


def test_splash_masks_compare_and_hash_by_their_cells():
    """splash joins equal heads by hash."""
    one, two, other = (
        lower(Causal() & (Window(w) | Prefix(2)), "splash", 64, 64) for w in (5, 5, 6)
    )
    assert one == two
    assert hash(one) == hash(two)
    assert one != other
    heads = lower(PerHead((Causal() | Prefix(3), Causal() | Prefix(3))), "splash", 8, 8)
    assert heads.masks[0] is heads.masks[1]


def test_splash_builds_nothing_dense():
    """NumpyMask at a million tokens is 10**12 bools."""
    n = 1 << 20
    mask = lower(Causal() & (Window(4096) | Prefix(4)), "splash", n, n)
    tile = mask[n - 128 : n, n - 4224 : n - 4096]
    rows, keys = np.arange(n - 128, n), np.arange(n - 4224, n - 4096)
    assert np.array_equal(tile, evaluate(Window(4096), rows, keys))


def test_splash_refuses_a_batch_axis():
    mask = Causal() & Keys(np.arange(7) >= [[0], [1]]) | Shift(Window(1))
    with pytest.raises(Unsupported, match=r"no batch axis; got query \d, key 0, batch 1 hidden"):
        lower(mask, "splash", 7, 7)
    assert lower(Causal() & Segments.padded([7, 7]), "splash", 7, 7).shape == (7, 7)


def test_splash_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    """A traceback from inside, where a sentence would do; a refusal needs no library."""
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(ImportError, match=r"not installed: pip install 'hitherto\[jax\]'"):
        lower(Causal(), "splash", 7, 7)
    with pytest.raises(Unsupported, match="sees no key"):
        lower(Nothing(), "splash", 7, 7)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [Causal() & (Window(40) | Prefix(4)), Window(129), Band(3, 70)])
def test_splash_kernel_shows_what_the_mask_shows(mask: Mask):
    """The TPU kernel, interpreted: it reads tiles of our mask at trace time."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    sizes = kernel.BlockSizes(block_q=128, block_kv=128, block_kv_compute=128)
    attention = kernel.make_splash_mha(
        masks.MultiHeadMask([lower(mask, "splash", 128, 384)]), block_sizes=sizes,
        head_shards=1, q_seq_shards=1, interpret=True,
    )  # fmt: skip
    q, k = np.zeros((1, 128, 128), np.float32), np.zeros((1, 384, 128), np.float32)
    out = attention(q, k, np.eye(384, dtype=np.float32)[None])
    cells = evaluate(mask, np.arange(256, 384), np.arange(384))
    assert np.array_equal(np.asarray(out[0]) > 0, cells)
