"""Packed sequences: flash-attn, torch's varlen and Transformer Engine, read by their documents."""

from itertools import pairwise, product

import numpy as np
import pytest

from hitherto.errors import Unsupported
from hitherto.lowering import lower
from hitherto.mask import Causal, Segments, Table, Window
from lowering import readings
from lowering.usual import cases, cells, packed_cells

CASES = [*cases(200, batch=2), *cases(60, batch=3, heads=2), *cases(60)]


def numbers(value):
    return value.tolist() if hasattr(value, "tolist") else value


def flash_cells(case, call) -> np.ndarray:
    """Read a call of flash-attn: bool (batch, queries, keys), or packed (queries, keys)."""
    said = {name: numbers(value) for name, value in call.arguments.items()}
    window = said["causal"], tuple(said["window_size"])
    if call.name.endswith("flash_attn_func"):
        return np.array(readings.flash_piece(case.q_len, case.k_len, *window))
    if call.name.endswith("with_kvcache"):
        return np.array(readings.kvcache(case.q_len, case.k_len, said["cache_seqlens"],
                                         said.get("cache_leftpad"), *window))  # fmt: skip
    assert call.name == "flash_attn.flash_attn_varlen_func"
    cu_q, cu_k = said["cu_seqlens_q"], said["cu_seqlens_k"]
    assert said["max_seqlen_q"] == max(np.diff(cu_q))
    assert said["max_seqlen_k"] == max(np.diff(cu_k))
    return np.array(readings.packed(cu_q, cu_k, *window))


@pytest.mark.parametrize("form", [None, "whole", "kvcache", "varlen"])
def test_flash_arguments_mean_the_mask(form):
    """A window one key too wide, the wrong corner, a document that sees its neighbour."""
    said = 0
    for case in CASES:
        try:
            call = lower(case.mask, "flash", *case.grid, form=form)
        except Unsupported:
            continue
        got, want = flash_cells(case, call), cells(case)
        if call.name.endswith("varlen_func"):
            np.testing.assert_array_equal(got, packed_cells(case), err_msg=repr(case))
        else:
            np.testing.assert_array_equal(np.broadcast_to(got, want[:, 0].shape), want[:, 0])
        said += 1
    assert said > 50


def test_varlen_arguments_mean_the_mask():
    """`varlen_attn` has no `causal`: (-1, 0) says it."""
    said = 0
    for case in CASES:
        try:
            call = lower(case.mask, "varlen", *case.grid)
        except Unsupported:
            continue
        cu_q, cu_k = call["cu_seq_q"].tolist(), call["cu_seq_k"].tolist()
        got = readings.packed(cu_q, cu_k, False, call["window_size"])
        np.testing.assert_array_equal(np.array(got), packed_cells(case), err_msg=repr(case))
        said += 1
    assert said > 100


@pytest.mark.parametrize("packed", [False, True])
def test_transformer_engine_arguments_mean_the_mask(packed):
    """True kept, where Transformer Engine's True hides; the corner of the other mask type."""
    kinds = set()
    for case in CASES:
        try:
            said = lower(case.mask, "transformer_engine", *case.grid, packed=packed, empty="mean")
        except Unsupported:
            assert packed
            continue
        kind, window = said["attn_mask_type"], said.get("window_size")
        kinds.add(kind)
        if kind == "arbitrary":
            got = ~np.broadcast_to(said["attention_mask"].numpy(), cells(case).shape)
            np.testing.assert_array_equal(got, cells(case))
        elif packed:
            pieces = zip(*(numbers(said[f"cu_seqlens_{x}"]) for x in ("q", "kv")), strict=True)
            got = te_packed(list(pieces), kind.removeprefix("padding_"), window)
            np.testing.assert_array_equal(got, packed_cells(case), err_msg=repr(case))
        else:
            got = readings.transformer_engine_type(case.q_len, case.k_len, kind, window)
            want = cells(case)
            np.testing.assert_array_equal(np.broadcast_to(got, want.shape), want)
    every = {"no_mask", "causal", "causal_bottom_right", "arbitrary"}
    assert kinds == (
        {"padding", "padding_causal", "padding_causal_bottom_right"} if packed else every
    )


def te_packed(starts: list, kind: str, window: tuple[int, int]) -> np.ndarray:
    grid = np.zeros(starts[-1], bool)
    for (q0, k0), (q1, k1) in pairwise(starts):
        grid[q0:q1, k0:k1] = np.array(
            readings.transformer_engine_type(q1 - q0, k1 - k0, kind, window), bool
        ).reshape(q1 - q0, k1 - k0)
    return grid


def test_transformer_engine_refuses_empty_rows():
    """-10000 is no minus infinity: an empty row becomes the mean of what is hidden."""
    mask = Causal() & Segments([-1, 0, 0])
    with pytest.raises(Unsupported, match="mean"):
        lower(mask, "transformer_engine", 3, 3)
    hidden = lower(mask, "transformer_engine", 3, 3, empty="mean")["attention_mask"]
    assert hidden[0, 0, 0].all()


def compositions(queries: int, keys: int):
    """Every way to cut both axes into pieces together, pieces of one empty side included."""
    if not queries and not keys:
        yield []
    for q, k in product(range(queries + 1), range(keys + 1)):
        if q or k:
            for rest in compositions(queries - q, keys - k):
                yield [(q, k), *rest]


def all_packings(queries: int, keys: int) -> set[bytes]:
    """Every mask that any cut and any window of `varlen_attn` gives on a grid."""
    found = set()
    limits = range(-1, queries + keys)
    for cut in compositions(queries, keys):
        cu_q = [0, *np.cumsum([q for q, _ in cut]).tolist()]
        cu_k = [0, *np.cumsum([k for _, k in cut]).tolist()]
        for window in product(limits, limits):
            found.add(np.array(readings.packed(cu_q, cu_k, False, window)).tobytes())
    return found


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (3, 3)])
def test_varlen_refuses_just_what_no_cut_and_window_gives(grid):
    """A mask that is refused although it can be said: all masks, against all arguments."""
    can = all_packings(*grid)
    for number in range(1 << (grid[0] * grid[1])):
        cell = np.array([number >> i & 1 for i in range(grid[0] * grid[1])], bool).reshape(grid)
        try:
            said = lower(Table(cell), "varlen", *grid, 0)
        except Unsupported:
            assert cell.tobytes() not in can, cell
            continue
        got = readings.packed(said["cu_seq_q"].tolist(), said["cu_seq_k"].tolist(), False,
                              said["window_size"])  # fmt: skip
        assert np.array_equal(np.array(got), cell)
    assert 10 < len(can) < 1 << (grid[0] * grid[1])


@pytest.mark.parametrize("grid", [(2, 4), (3, 3), (4, 2), (1, 5)])
def test_flash_whole_refuses_just_what_no_window_gives(grid):
    """Likewise of `flash_attn_func`: causal and two ends of a window."""
    limits = range(-1, sum(grid))
    can = {np.array(readings.flash_piece(*grid, causal, window)).tobytes()
           for causal in (False, True) for window in product(limits, limits)}  # fmt: skip
    for number in range(1 << (grid[0] * grid[1])):
        cell = np.array([number >> i & 1 for i in range(grid[0] * grid[1])], bool).reshape(grid)
        if cell.tobytes() in can:
            assert lower(Table(cell), "flash", *grid, 0, form="whole").name.endswith("attn_func")
        else:
            with pytest.raises(Unsupported):
                lower(Table(cell), "flash", *grid, 0, form="whole")


def test_flash_takes_the_smallest_form():
    """cu_seqlens for what `causal=True` says."""
    assert lower(Causal(), "flash", 5, 9).arguments == {"causal": True, "window_size": (-1, -1)}
    assert lower(Causal() & Window(4), "flash", 5, 9).arguments["window_size"] == (3, 0)
    padded = lower(Causal() & Segments.padded([3, 9], side="left", width=9), "flash", 1, 9)
    assert padded.name.endswith("with_kvcache")
    assert padded.arguments["cache_leftpad"].tolist() == [6, 0]
    assert padded.arguments["cache_seqlens"].tolist() == [9, 9]
    documents = lower(Causal() & Segments.from_lengths([3, 2, 4]), "flash", 9, 9)
    assert documents.arguments["cu_seqlens_q"].tolist() == [0, 3, 5, 9]
    assert documents.arguments["causal"] is True
