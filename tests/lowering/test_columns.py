"""FlashMask's columns, MagiAttention's slices, flashinfer's bits and blocks, FA4's lists."""

from itertools import product

import numpy as np
import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import (
    Causal,
    Nothing,
    PerHead,
    Prefix,
    Queries,
    Segments,
    Strided,
    Table,
    Window,
    pairs,
)
from lowering import readings
from lowering.usual import cases, cells, one_head, packed_cells
from strategies import seeded_case

CASES = [*cases(160, batch=2), *cases(60, batch=3, heads=2), *cases(60)]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_flashmask_columns_mean_the_mask(case):
    """Visible rows where FlashMask's numbers name hidden ones; an end that is counted in."""
    want = cells(case)
    try:
        said = lower(case.mask, "flashmask", *case.grid)
    except Unsupported:
        hidden = np.pad(~want, ((0, 0), (0, 0), (1, 0), (0, 0)))
        runs = (hidden[:, :, 1:] & ~hidden[:, :, :-1]).sum(2)
        assert runs.max() > 2
        return
    rows = said.startend_row_indices
    for b, h in np.ndindex(want.shape[:2]):
        columns = None if rows is None else rows[b % len(rows), h % rows.shape[1]].tolist()
        got = readings.flashmask(case.q_len, case.k_len, columns, said.causal)
        assert np.array_equal(np.array(got), want[b, h]), case


def test_flashmask_takes_the_smallest_form():
    """Four numbers a key where one is enough."""
    square = (9, 9)
    assert lower(Causal(), "flashmask", *square).startend_row_indices is None
    documents = lower(Causal() & Segments.from_lengths([4, 5]), "flashmask", *square)
    assert documents.causal
    assert documents.startend_row_indices.tolist() == [[[[4]] * 4 + [[9]] * 5]]
    full = lower(Segments.from_lengths([4, 5]), "flashmask", *square)
    assert not full.causal
    assert full.startend_row_indices.tolist() == [[[[4, 0]] * 4 + [[9, 4]] * 5]]
    assert (
        lower(Causal() - Queries(range(3, 5)), "flashmask", *square).startend_row_indices.shape[-1]
        == 2
    )


@pytest.mark.parametrize("rows", [4, 5])
def test_flashmask_refuses_just_columns_with_three_hidden_runs(rows):
    """All columns: each is said, or has three runs of hidden rows."""
    for bits in product([False, True], repeat=rows):
        column = np.array(bits)[:, None]
        hidden = np.pad(~column[:, 0], (1, 0))
        if (hidden[1:] & ~hidden[:-1]).sum() > 2:
            with pytest.raises(Unsupported, match="its third"):
                lower(Table(column), "flashmask", rows, 1, 0)
        else:
            said = lower(Table(column), "flashmask", rows, 1, 0)
            table = said.startend_row_indices
            table = None if table is None else table[0, 0].tolist()
            assert readings.flashmask(rows, 1, table, said.causal) == column.tolist()


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_magi_slices_mean_the_mask(case):
    """A causal slice by the wrong corner; a cell that two slices count twice."""
    if not one_head(case):
        with pytest.raises(Unsupported, match="head"):
            lower(case.mask, "magi", *case.grid, empty="accept")
        return
    said = lower(case.mask, "magi", *case.grid, empty="accept")
    want = packed_cells(case)
    got = readings.magi(*want.shape, said.q_ranges.tolist(), said.k_ranges.tolist(),
                        said.attn_type_map.tolist())  # fmt: skip
    assert np.array_equal(np.array(got), want), case


def test_magi_says_what_it_can_in_few_slices():
    """A slice a row for a window."""
    said = lower(Causal() & Window(100), "magi", 1000, 1000)
    assert said.attn_type_map.tolist() == [1, 3]
    assert said.q_ranges.tolist() == [[0, 100], [100, 1000]]
    documents = lower(Causal() & Segments.from_lengths([400, 600]), "magi", 1000, 1000)
    assert documents.k_ranges.tolist() == [[0, 400], [400, 1000]]
    with pytest.raises(Unsupported, match="not documented"):
        lower(Nothing(), "magi", 3, 3)


@pytest.mark.parametrize("form", ["arguments", "bits", "bsr"])
def test_flashinfer_arguments_mean_the_mask(form):
    """Rows that begin on a byte, bits from the high end, a window counted from the wrong corner."""
    said = 0
    for case in CASES:
        want = cells(case)
        try:
            call = lower(case.mask, "flashinfer", *case.grid, form=form, empty="accept")
        except Unsupported:
            assert form != "bits" or not one_head(case)
            continue
        has = {n: v.tolist() if hasattr(v, "tolist") else v for n, v in call.arguments.items()}
        if form == "arguments":
            got = readings.flashinfer_arguments(case.q_len, case.k_len, **has)
        elif form == "bits":
            got = readings.flashinfer_bits(has["packed_custom_mask"], case.q_len, case.k_len,
                                           len(want))  # fmt: skip
            if len(want) > 1:
                assert has["qo_indptr"] == [b * case.q_len for b in range(len(want) + 1)]
                assert has["kv_indptr"] == [b * case.k_len for b in range(len(want) + 1)]
        else:
            got = readings.bsr(has["indptr"], has["indices"], (has["M"], has["N"]),
                               (has["R"], has["C"]), has.get("mask"))  # fmt: skip
        assert np.array_equal(np.broadcast_to(got, want[:, 0].shape), want[:, 0]), case
        said += 1
    assert said > 40


@pytest.mark.parametrize("block", [(1, 1), (4, 6), (12, 3)])
def test_flashinfer_blocks_hold_the_mask(block):
    """A partial block taken as full."""
    for seed in range(30):
        case = seeded_case(seed, sizes=(12, 24), leaves=3)
        call = lower(case.mask, "flashinfer", *case.grid, form="bsr", block=block, empty="accept")
        has = {n: v.tolist() if hasattr(v, "tolist") else v for n, v in call.arguments.items()}
        got = readings.bsr(has["indptr"], has["indices"], case.grid[:2], block, has.get("mask"))
        assert np.array_equal(np.array(got), cells(case)[0, 0])
        touched = np.diff(has["indptr"]).sum() * block[0] * block[1]
        assert touched >= pairs(case.mask, *case.grid)
    with pytest.raises(Unsupported, match="whole 5 x 5"):
        lower(Causal(), "flashinfer", 12, 12, form="bsr", block=(5, 5))


@pytest.mark.parametrize("grid", [(2, 4), (3, 3), (4, 2)])
def test_flashinfer_arguments_refuse_just_what_they_cannot_say(grid):
    """All masks, against causal with every window."""
    can = {np.array(readings.flashinfer_arguments(*grid, causal, left)).tobytes()
           for causal in (False, True) for left in range(-1, 8)}  # fmt: skip
    for number in range(1 << (grid[0] * grid[1])):
        cell = np.array([number >> i & 1 for i in range(grid[0] * grid[1])], bool).reshape(grid)
        options = {"form": "arguments", "empty": "accept"}
        if cell.tobytes() in can:
            lower(Table(cell), "flashinfer", *grid, 0, **options)
        else:
            with pytest.raises(Unsupported):
                lower(Table(cell), "flashinfer", *grid, 0, **options)


FOUR = [*cases(60, batch=2, heads=3), *(seeded_case(s, leaves=2) for s in range(30))]


@pytest.mark.parametrize("case", FOUR, ids=range(len(FOUR)))
def test_flash4_lists_and_mask_mod_mean_the_mask(case):
    """A full block with a hidden cell; a table of another head; an interval with its end."""
    want = cells(case)
    said = lower(case.mask, "flash4", *case.grid, block=(4, 8))
    aux = [tensor.tolist() for tensor in said.aux_tensors]
    for b, h in np.ndindex(want.shape[:2]):
        partial = readings.cute_mask_mod(said.mask_mod, case.q_len, case.k_len, b, h, aux)
        assert np.array_equal(np.array(partial), want[b, h]), case
        names = [f"{kind}_block_{what}" for kind in ("mask", "full") for what in ("cnt", "idx")]
        lists = {}
        for name in names:
            tensor = getattr(said, name)
            lists[name] = tensor[b % len(tensor), h % tensor.shape[1]].tolist()
        got = readings.block_lists(case.q_len, case.k_len, (4, 8), lists, partial)
        assert np.array_equal(np.array(got), want[b, h]), case


def test_flash4_refuses_rows_of_many_ranges():
    """A text of hundreds of comparisons."""
    with pytest.raises(Unsupported, match="at most 8"):
        lower(Strided(2), "flash4", 40, 40)
    lower(PerHead([Causal() & (Window(3) | Prefix(1)), Nothing()]), "flash4", 40, 40)
