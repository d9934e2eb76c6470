"""FlexAttention: the tables against torch's own, the mask_mod by torch's own reading of it."""

import numpy as np
import pytest
import torch
from torch.nn.attention import flex_attention as module
from torch.nn.attention.flex_attention import (
    BlockMask,
    create_block_mask,
    create_mask,
    flex_attention,
)

from hitherto.attention import Alibi, Relative, attend
from hitherto.lowering import block_tables, lower, score_mod
from hitherto.mask import (
    Causal,
    Chunks,
    Dilated,
    Everything,
    Keys,
    Nothing,
    PerHead,
    Prefix,
    Segments,
    Window,
)
from lowering.usual import cells, usual_case
from strategies import EDGES, seeded_case

ODD = (*EDGES, 200, 257)
CASES = [seeded_case(s, sizes=ODD, leaves=4, batch=1 + s % 2, heads=1 + s % 3) for s in range(90)]
CASES += [usual_case(s, batch=2, heads=2) for s in range(30)]


def lists(count: torch.Tensor, index: torch.Tensor, shape: tuple[int, ...]) -> list:
    """The block numbers that a kernel reads: those before each row's count."""
    count, index = count.expand(*shape, -1), index.expand(*shape, -1, -1)
    return [
        [row[:n].tolist() for n, row in zip(count[at], index[at], strict=True)]
        for at in np.ndindex(shape)
    ]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_block_mask_holds_the_mask(case):
    """A tile called full with a hidden cell in it, a key past the end, a head's row of another."""
    want = cells(case)
    batch, heads = want.shape[:2]
    block = ((128, 128), (16, 32), (64, 64))[len(str(case.mask)) % 3]
    made = lower(case.mask, "flex", *case.grid, block=block)
    seen = create_mask(made.mask_mod, batch, heads, case.q_len, case.k_len, "cpu").numpy()
    np.testing.assert_array_equal(seen, want)

    rows, columns = -(-case.q_len // block[0]), -(-case.k_len // block[1])
    counts = np.zeros((batch, heads, rows * block[0], columns * block[1]), int)
    size = np.zeros(counts.shape[2:], int)
    counts[:, :, : case.q_len, : case.k_len] = want
    size[: case.q_len, : case.k_len] = 1
    counts = counts.reshape(batch, heads, rows, block[0], columns, block[1]).sum((3, 5))
    full = counts == size.reshape(rows, block[0], columns, block[1]).sum((1, 3))
    partial = (counts > 0) & ~full
    for kind, tiles in (("kv", partial), ("full_kv", full), ("q", partial), ("full_q", full)):
        count, index = (getattr(made, f"{kind}_{name}") for name in ("num_blocks", "indices"))
        tiles = tiles.swapaxes(2, 3) if kind.endswith("q") else tiles
        assert index.shape == (*count.shape, tiles.shape[3])
        assert count.dtype == index.dtype == torch.int32
        want_lists = [
            [np.flatnonzero(row).tolist() for row in tiles[at]] for at in np.ndindex(batch, heads)
        ]
        assert lists(count, index, (batch, heads)) == want_lists


@pytest.mark.parametrize(
    ("mask", "mod"),
    [
        (Causal(), lambda b, h, q, k: k <= q),
        (Causal() & Window(200), lambda b, h, q, k: (k <= q) & (q - k < 200)),
        (Causal() | Prefix(300), lambda b, h, q, k: (k <= q) | (k < 300)),
        (Causal() & Chunks(150), lambda b, h, q, k: (k <= q) & (k // 150 == q // 150)),
    ],
)
def test_block_mask_equals_torchs_own(mask, mod):
    """Another layout than the kernels read. On whole blocks torch counts right."""
    theirs = create_block_mask(mod, None, None, 512, 640, "cpu")
    ours = lower(mask, "flex", 512, 640, 0)
    for kind in ("kv", "full_kv", "q", "full_q"):
        pairs = [
            lists(getattr(m, f"{kind}_num_blocks"), getattr(m, f"{kind}_indices"), (1, 1))
            for m in (theirs, ours)
        ]
        assert pairs[0] == pairs[1], kind
    assert ours.to_dense().tolist() == theirs.to_dense().tolist()
    assert ours.shape == theirs.shape
    assert ours.BLOCK_SIZE == theirs.BLOCK_SIZE


def test_block_mask_counts_ragged_edges_right():
    """torch calls the last block of a 300 x 300 mask partial where all its cells are seen."""
    theirs = create_block_mask(lambda b, h, q, k: k <= q + 200, None, None, 300, 300, "cpu")
    ours = lower(Everything(), "flex", 300, 300)
    assert ours.full_kv_num_blocks.tolist() == [[[3, 3, 3]]]
    assert ours.kv_num_blocks.tolist() == [[[0, 0, 0]]]
    assert theirs.full_kv_num_blocks.tolist() != [[[3, 3, 3]]]


@pytest.mark.parametrize(
    "mask",
    [Causal(), Causal() | Prefix(1000), Causal() & Window(70_000), Everything(), Nothing()],
    ids=str,
)
def test_tables_that_share_memory_hold_the_same_lists(mask):
    """Rows laid over each other that a kernel would read wrong."""
    at = (1 << 14, 1 << 14)
    plain = lower(mask, "flex", *at, block=16)
    whole, block_tables.SHARED_FROM = block_tables.SHARED_FROM, 0
    try:
        shared = lower(mask, "flex", *at, block=16)
    finally:
        block_tables.SHARED_FROM = whole
    for kind in ("kv", "full_kv", "q", "full_q"):
        one, two = (getattr(m, f"{kind}_indices") for m in (plain, shared))
        count = getattr(plain, f"{kind}_num_blocks")
        assert [[sorted(row) for row in at] for at in lists(count, two, (1, 1))] == lists(
            count, one, (1, 1)
        )
        assert count.tolist() == getattr(shared, f"{kind}_num_blocks").tolist()
        assert two.max() < two.shape[-1]
        assert two.min() >= 0
    assert shared.to_dense().tolist() == plain.to_dense().tolist()


def test_a_million_tokens_fit():
    """256 MiB for every table, or 10^12 cells."""
    made = lower(Causal() & Window(4096), "flex", 1 << 20, 1 << 20)
    assert isinstance(made, BlockMask)
    stored = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in made.as_tuple()
              if isinstance(t, torch.Tensor)}  # fmt: skip
    assert sum(stored.values()) < 8 << 20
    causal = lower(Causal(), "flex", 1 << 20, 1 << 20)
    assert causal.full_kv_indices[0, 0, 8191, :8191].tolist() == list(range(8191))
    assert causal.full_q_indices[0, 0, 100, :3].tolist() == [101, 102, 103]


def test_decoding_reads_tables_not_constants():
    """A kernel compiled anew for every token, because its offset was a constant."""
    one, two = (lower(Causal() & Window(9), "flex", 1, 300, start).mask_mod for start in (290, 291))
    assert one.__code__ is two.__code__
    constants = [type(c.cell_contents) for c in one.__closure__]
    assert int not in constants


@pytest.mark.parametrize("heads", [1, 3])
def test_score_mods_equal_attends_biases(heads):
    """A distance from row numbers where queries begin later; a head's slope of another head."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, n, 8) for n in (5, 9, 9))
    slopes, table = torch.rand(heads), torch.randn(heads, 7)
    made = lower(Causal(), "flex", 5, 9)
    for bias, mod in (
        (Alibi(slopes), score_mod.alibi(slopes, 4)),
        (Relative(table), score_mod.relative(table, -3, 4)),
    ):
        want = attend(q, k, v, Causal(), bias=bias, backend="reference")
        torch.testing.assert_close(eager(q, k, v, mod, made), want)


def eager(q, k, v, mod, made):
    """Run torch's unfused implementation, which reads the same functions."""
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        return flex_attention(q, k, v, mod, made)
    finally:
        module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False


@pytest.mark.parametrize(
    ("mask", "grid"),
    [
        (PerHead([Causal(), Causal() & Window(20)]), (129, 257)),
        (Causal() & Segments.padded([0, 40], side="left", width=97), (97, 97)),
        (Keys(range(0, 200, 2)) & Causal(), (64, 300)),
        (Dilated(20, 3), (130, 200)),
    ],
    ids=["heads", "padding", "bits", "dilated"],
)
def test_flex_attention_gives_what_attend_gives(mask, grid):
    """A mask_mod that torch cannot run, or rows that see nothing and are not zero."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, n, 16) for n in (grid[0], grid[1], grid[1]))
    want = attend(q, k, v, mask, backend="reference")
    torch.testing.assert_close(eager(q, k, v, None, lower(mask, "flex", *grid)), want)


COMPILED = [
    (Causal(), (257, 257)),
    (Causal() & (Window(40) | Prefix(4)), (1, 300)),
    (Causal() & Window(40), (130, 300)),
    (PerHead([Causal(), Causal() & Window(20)]), (129, 129)),
    (Causal() & Segments.padded([100, 257], side="left", width=257), (257, 257)),
    (Causal() & Dilated(50, 3), (200, 260)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "grid"), COMPILED, ids=range(len(COMPILED)))
@pytest.mark.filterwarnings("ignore")
def test_compiled_flex_attention_gives_what_attend_gives(mask, grid):
    """Blocks that only the compiled kernel skips or takes as full, at odd lengths."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    q, k, v = (torch.randn(2, 2, n, 32) for n in (grid[0], grid[1], grid[1]))
    # dynamic=False: torch 2.13's CPU template does not compile for lengths it holds as symbols.
    got = torch.compile(flex_attention, dynamic=False)(
        q, k, v, block_mask=lower(mask, "flex", *grid)
    )
    torch.testing.assert_close(got, attend(q, k, v, mask, backend="reference"))
