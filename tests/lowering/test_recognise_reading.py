"""Every form is read as the cells that its own convention says, decided in plain loops."""

import numpy as np
import pytest
import torch

from hitherto.errors import MaskError
from hitherto.lowering.flashmask import FlashMask
from hitherto.lowering.magi import MagiSlices
from hitherto.lowering.recognise import Bits, CuSeqlens, Padding, PositionIds, convert, recognise
from hitherto.lowering.recognise.reading import read
from hitherto.lowering.recognise.region import Region
from hitherto.lowering.sparse import Coo, Csr
from hitherto.mask import Causal, Prefix, Window, evaluate, parse

SHAPES = [(7, 11), (11, 7), (1, 65), (64, 64), (130, 129)]


def cells_of(x, **lengths):
    """Read a form and write its cells: (batch, heads, queries, keys)."""
    grid = read(x, **({"true": "attends", "q_len": None, "k_len": None, "q_start": None} | lengths))
    return np.stack([spans.dense() for spans in grid.spans])[grid.index]


def some(*shape, seed=0):
    """Random cells with long runs, an empty row and a full one."""
    rng = np.random.default_rng(seed)
    cells = np.repeat(rng.random((*shape[:-1], -(-shape[-1] // 3))) < 0.5, 3, -1)[..., : shape[-1]]
    cells[..., 0, :] = False
    cells[..., -1, :] = True
    return cells


@pytest.mark.parametrize("shape", [*SHAPES, (3, 5, 9), (2, 3, 5, 9), (1, 1, 4, 4)])
def test_dense_array_is_read_cell_by_cell(shape):
    """Axes in front, lengths that are no whole words, True that hides, ints, and torch."""
    cells = some(*shape)
    want = cells.reshape((*shape[:-2], 1, 1)[:2] + shape[-2:])
    for x in (cells, cells.astype(np.int8), torch.from_numpy(cells), cells.tolist()):
        assert (cells_of(x) == want).all()
    assert (cells_of(~cells, true="hides") == want).all()
    assert (cells_of(1 - cells.astype(np.uint8), true="hides") == want).all()


@pytest.mark.parametrize(
    ("dtype", "hidden"),
    [
        (torch.float32, -torch.inf),
        (torch.bfloat16, torch.finfo(torch.bfloat16).min),
        (torch.float16, torch.finfo(torch.float16).min),
        (torch.float64, -10000.0),
    ],
)
def test_additive_floats_hide_where_they_are_very_negative(dtype, hidden):
    """The polarity of a float mask is in its values, whatever `true` says."""
    cells = torch.from_numpy(some(13, 17))
    bias = torch.zeros(13, 17, dtype=dtype).masked_fill(~cells, hidden)
    for true in ("attends", "hides"):
        assert (cells_of(bias, true=true)[0, 0] == cells.numpy()).all()


def test_expanded_axes_are_read_once():
    """A head axis that repeats the same memory is one mask."""
    cells = torch.from_numpy(some(3, 1, 5, 9)).expand(3, 8, 5, 9)
    grid = read(cells, true="attends", q_len=None, k_len=None, q_start=None)
    assert grid.index.shape == (3, 8)
    assert len(grid.spans) == 3


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.array([[0.0, -1.5]]), "-1.5 at"),
        (np.array([[0.0, np.nan]]), "nan at"),
        (np.array([[0, 2]]), "2 at"),
        (np.array([[1.0, 0.0]]), "astype"),
        (np.zeros((3, 0)), "none of them 0"),
        (np.zeros(3, bool), "queries, keys"),
        (np.zeros((1, 1, 1, 3, 3), bool), "queries, keys"),
        (np.array([["a"]]), "bools, ints"),
        (object(), "BlockMask"),
        ({"colour": 3}, "colour"),
        (Bits(np.zeros((2, 3), np.uint8), 30), "2, 3"),
        (Bits(np.zeros((2, 3), np.uint8), 20, "middle"), "middle"),
        (CuSeqlens([0, 5, 3]), "never fall"),
        (CuSeqlens([0, 5], [0, 3, 5]), "2 ends"),
        (Padding([[0, 3]]), "1 for tokens"),
        (FlashMask(startend_row_indices=np.zeros((1, 1, 4, 4), int), causal=True), "1 or 2"),
        (Csr([0, 2], [0], (1, 3)), "rise"),
        (Coo([[0], [9]], (1, 3)), "inside"),
    ],
)
def test_what_is_no_mask_is_refused(x, said):
    with pytest.raises(MaskError, match=said):
        recognise(x)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 3, 5, 9)])
def test_bits_are_read_in_both_orders(order, shape):
    """Bits past the last key are not read: here they are set."""
    cells = some(*shape)
    padded = np.concatenate([cells, np.ones((*shape[:-1], -shape[-1] % 8), bool)], -1)
    packed = np.packbits(padded, axis=-1, bitorder=order)
    want = cells.reshape((*shape[:-2], 1, 1)[:2] + shape[-2:])
    assert (cells_of(Bits(packed, shape[-1], order)) == want).all()
    assert (cells_of(Bits(torch.from_numpy(packed), shape[-1], order)) == want).all()


@pytest.mark.parametrize("shape", [(7, 11), (2, 3, 5, 9)])
def test_sparse_matrices_are_read_with_their_axes(shape):
    cells = some(*shape)
    want = cells.reshape((*shape[:-2], 1, 1)[:2] + shape[-2:])
    rows = cells.reshape(-1, shape[-1])
    indptr = np.append(0, np.cumsum(rows.sum(1)))
    assert (cells_of(Csr(indptr, np.nonzero(rows)[1], shape)) == want).all()
    assert (cells_of(Coo(np.array(np.nonzero(cells)), shape)) == want).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (2, 1), (3, -1), (0, 0)])
def test_cu_seqlens_are_aligned_at_the_last_query_and_key(causal, window):
    """Each document has a corner of its own; one has fewer keys than queries, one has none."""
    q, k = [0, 3, 7, 7, 12], [0, 5, 6, 8, 8]
    want = np.zeros((12, 8), bool)
    for first, stop, a, b in zip(q, q[1:], k, k[1:], strict=False):
        for i in range(first, stop):
            for j in range(a, b):
                ahead = (j - b) - (i - stop)
                left, right = window[0], 0 if causal else window[1]
                want[i, j] = (left < 0 or ahead >= -left) and (right < 0 or ahead <= right)
    assert (cells_of(CuSeqlens(q, k, causal, window))[0, 0] == want).all()


def test_packed_positions_begin_a_document_where_they_do_not_rise_by_one():
    found = recognise(PositionIds([0, 1, 2, 0, 1, 0, 1, 2, 3]))
    assert str(found.mask) == "Causal() & Segments.from_lengths([3, 2, 4])"
    assert "3 documents" in found.sentence


def test_padding_hides_keys_below_a_causal_model():
    real = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    want = np.tri(5, dtype=bool) & real.astype(bool)[:, None]
    assert (cells_of(Padding(real))[:, 0] == want).all()
    assert (cells_of(Padding(torch.tensor(real)), q_len=2)[:, 0] == want[:, -2:]).all()


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_flash_mask_columns_hide_rows(columns, causal):
    count = columns if causal else 2 * columns
    table = np.random.default_rng(count).integers(0, 10, (2, 1, 9, count))
    want = np.ones((2, 9, 9), bool)
    for b, i, j in np.ndindex(want.shape):
        match causal, table[b, 0, j].tolist():
            case _, [first]:
                hidden = i >= first
            case True, [first, stop]:
                hidden = first <= i < stop
            case False, [first, stop]:
                hidden = i >= first or i < stop
            case _, [first, stop, upper, end]:
                hidden = first <= i < stop or upper <= i < end
        want[b, i, j] = not hidden and not (causal and j > i)
    found = cells_of(FlashMask(startend_row_indices=table, causal=causal))
    assert (found[:, 0] == want).all()


def test_magi_slices_are_cut_along_their_diagonals():
    """Types 0 to 3, rectangles wider and taller than they are long, overlaps."""
    slices = [((0, 4), (0, 6), 1), ((4, 9), (2, 5), 2), ((9, 12), (0, 8), 3), ((2, 5), (5, 9), 0)]
    want = np.zeros((12, 9), bool)
    for (q0, q1), (k0, k1), kind in slices:
        for i in range(q0, q1):
            for j in range(k0, k1):
                last = kind in (0, 2) or k1 - j > q1 - 1 - i
                first = kind in (0, 1) or j - k0 >= i - q0
                want[i, j] |= last and first
    q, k, kind = zip(*slices, strict=True)
    found = MagiSlices(q_ranges=np.array(q), k_ranges=np.array(k), attn_type_map=np.array(kind))
    assert (cells_of(found)[0, 0] == want).all()


def test_block_mask_asks_only_partial_blocks():
    """A mask_mod that lies about a full block is not asked there; ragged edges are cut."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    asked = []

    def mod(b, h, q, k):
        return (q >= k) & (q - k < 40 + 30 * h)

    made = flex.create_block_mask(mod, None, 2, 200, 300, device="cpu", BLOCK_SIZE=32)
    inner = made.mask_mod
    made.mask_mod = lambda b, h, q, k: (asked.append(1), inner(b, h, q, k))[1]
    q, k = np.arange(200)[:, None], np.arange(300)
    want = np.stack([(q >= k) & (q - k < 40 + 30 * h) for h in range(2)])
    assert (cells_of(made, q_start=0)[0] == want).all()
    assert asked


def test_block_mask_without_its_mask_mod_is_refused():
    """Slicing loses the mask_mod (pytorch's `_sliced_mask_mod_error`); a guess would be wrong."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    made = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu")
    with pytest.raises(MaskError, match="sliced"):
        recognise(made[:, :, :1])


def test_region_counts_what_dense_sums_count():
    """The measures on which every guess rests."""
    rng = np.random.default_rng(0)
    for q_len, k_len, start in [(7, 9, 2), (9, 5, 0), (3, 11, 4)]:
        cells = rng.random((2, q_len, k_len)) < 0.5
        grid = read(cells, true="attends", q_len=None, k_len=None, q_start=start)
        found = Region(tuple(grid.spans[i] for i in grid.index[:, 0]))
        q, k = np.arange(start, start + q_len)[:, None], np.arange(k_len)
        across = [
            (cells & ((k < p) & (q >= p) | (q < p) & (k >= p))).sum((1, 2))
            for p in range(found.positions + 1)
        ]
        diagonals = [(cells & (k - q == d)).sum() for d in range(1 - found.q_stop, k_len + 1)]
        assert (found.across == np.transpose(across)).all()
        assert (found.of_key == cells.sum(1)).all()
        assert (found.of_row == cells.sum(2)).all()
        assert found.of_diagonal.tolist() == diagonals


def test_convert_goes_from_one_library_to_another():
    mask = Causal() & (Window(5) | Prefix(2))
    cells = torch.from_numpy(evaluate(mask, np.arange(12), np.arange(12)))
    bias = torch.zeros(12, 12).masked_fill(~cells, -torch.inf)
    assert (convert(bias, "dense") == cells.numpy()).all()
    hides = convert(cells, "mha")["attn_mask"]
    assert (hides == ~cells).all()
    assert (convert(hides, "dense", true="hides") == cells.numpy()).all()


def test_q_start_says_where_the_queries_stand():
    cells = np.tri(5, 9, dtype=bool)
    assert str(recognise(cells, q_start=0).mask) == "Causal()"
    found = recognise(cells)
    assert (found.q_start, found.mask) == (4, parse("Band(None, -4)"))
    assert "top-left" in found.sentence
