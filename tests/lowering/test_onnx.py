"""ONNX: every mask through the reference evaluator and onnxruntime, cell by cell."""

import numpy as np
import pytest

from hitherto.errors import MaskError, Unsupported
from hitherto.lowering import lower
from hitherto.lowering.onnx import export_attention
from hitherto.mask import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Everything,
    Keys,
    Mask,
    Nothing,
    PerHead,
    Predicate,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Shift,
    Table,
    Tree,
    Window,
    evaluate,
)
from lowering.drawn import GRIDS, drawn, wanted

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def runs(model, feeds: dict) -> list[np.ndarray]:
    """Return `Y` of the reference evaluator and of onnxruntime."""
    from onnx.reference import ReferenceEvaluator

    return [ReferenceEvaluator(model).run(None, feeds)[0], session(model).run(None, feeds)[0]]


def session(model):
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def naming(cells: np.ndarray, past: int = 0) -> dict:
    """Return inputs of equal scores, and values that name their key; the first ones are past."""
    batch, heads, q_len, k_len = cells.shape
    keys = np.zeros((batch, 1, k_len, 4), np.float32)
    values = np.broadcast_to(np.eye(k_len, dtype=np.float32), (batch, 1, k_len, k_len))
    return {
        "Q": np.zeros((batch, heads, q_len, 4), np.float32),
        "K": keys[:, :, past:], "V": values[:, :, past:].copy(),
        "past_key": keys[:, :, :past], "past_value": values[:, :, :past].copy(),
    }  # fmt: skip


def model_of(said, feeds: dict):
    """Put one node into a model."""
    from onnx import TensorProto, helper

    node = said.node()
    opsets = [helper.make_opsetid("", said.opset)]
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs)
    version = helper.find_min_ir_version_for(opsets)
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


@pytest.mark.parametrize("opset", [23, 24, 25])
@pytest.mark.parametrize("grid", GRIDS)
def test_onnx_node_shows_what_the_mask_shows(grid: tuple, opset: int):
    """A corner that moved between opsets; a window off by one; a mean in an empty row."""
    for batch, heads in ((1, 1), (2, 2)):
        for i, case in enumerate(drawn(grid, 12, batch=batch, heads=heads)):
            cells = wanted(case, batch, heads)
            past = (0, min(case.q_start, case.k_len - 1), case.k_len // 2)[i % 3]
            said = lower(case.mask, "onnx", *case.grid, opset=opset, past_len=past, batch=batch)
            feeds = naming(cells, past) | said.inputs
            feeds = {name: x for name, x in feeds.items() if past or not name.startswith("past")}
            for got in runs(model_of(said, feeds), feeds):
                assert np.array_equal(got > 0, cells), (case, said)


@pytest.mark.parametrize(
    ("mask", "grid", "options", "attributes", "inputs"),
    [
        (Everything(), (5, 7), {}, {}, []),
        (Causal(), (7, 7), {"opset": 23}, {"is_causal": 1}, []),
        (Causal(), (3, 7), {"opset": 23}, {}, ["attn_mask"]),
        (Causal(), (3, 7), {"opset": 23, "past_len": 4}, {"is_causal": 1}, []),
        (Causal(), (3, 7), {"opset": 24}, {"is_causal": 1}, ["nonpad_kv_seqlen"]),
        (Causal(), (3, 7), {}, {"right_window_size": 4}, []),
        (Window(3), (7, 7), {"opset": 24}, {}, ["attn_mask"]),
        (Window(3), (7, 7), {}, {"left_window_size": 2, "right_window_size": 0}, []),
        (Keys(np.arange(7) < [[5], [7]]), (3, 7), {"opset": 24}, {}, ["nonpad_kv_seqlen"]),
        (Causal() | Prefix(3), (7, 7), {}, {}, ["attn_mask"]),
    ],
)
def test_onnx_takes_the_smallest_form(mask, grid, options, attributes, inputs):
    """A dense tensor where an attribute would do."""
    said = lower(mask, "onnx", *grid, **options)
    assert said.attributes == attributes
    assert list(said.inputs) == inputs


def test_onnx_says_a_window_over_a_million_tokens():
    n = 1 << 20
    said = lower(Window(4096), "onnx", n, n)
    assert said.attributes == {"left_window_size": 4095, "right_window_size": 0}


def test_onnx_refuses_what_is_no_opset_or_past():
    with pytest.raises(ValueError, match="opset must be 23, 24 or 25"):
        lower(Causal(), "onnx", 3, 3, opset=22)
    with pytest.raises(MaskError, match="past_len must be from 0 to k_len = 3"):
        lower(Causal(), "onnx", 3, 3, past_len=4)


def computable(mask: Mask, ragged: bool) -> bool:
    """Tell whether a mask is arithmetic in (q, k), or data by position."""
    match mask:
        case Predicate() | RandomBlocks():
            return False
        case Table(array=array):
            return array.ndim == 2 or not ragged
        case PerHead(masks=parts):
            return all(computable(part, ragged) for part in parts)
    parts = [getattr(mask, name, None) for name in ("left", "right", "mask")]
    return all(computable(part, ragged) for part in parts if isinstance(part, Mask))


@pytest.mark.parametrize("cache", ["none", "past", "static"])
def test_exported_attention_shows_what_the_mask_shows(cache: str):
    """Integer division that rounds to zero; a gather that wraps around; a ragged axis misread."""
    shown = 0
    for grid in GRIDS:
        q_len, k_len, q_start = grid
        ends = q_start + q_len
        if ends > k_len or (cache != "static" and ends != k_len):
            continue
        for i, case in enumerate(drawn(grid, 16, batch=2, heads=2)):
            how = {"opset": 24 + i % 2, "cache": cache}
            if not computable(case.mask, ragged=cache == "static"):
                with pytest.raises(Unsupported, match="must be arithmetic in"):
                    export_attention(case.mask, **how)
                continue
            model = export_attention(case.mask, **how)
            cells = wanted(case, 2, 2).copy()
            past = q_start if cache == "past" else 0
            feeds = naming(cells, past)
            if cache != "past":
                del feeds["past_key"], feeds["past_value"]
            if cache == "static":
                feeds["nonpad_kv_seqlen"] = np.array([ends, ends])
                cells[..., ends:] = False
            for got in runs(model, feeds):
                assert np.array_equal(got > 0, cells), (case, cache)
            shown += 1
    assert shown >= 15


def test_exported_attention_serves_every_length():
    """A length that was baked in: one model, prefill and then decode, equals `attend`."""
    import torch

    from hitherto.attention import attend

    mask = Causal() & (Window(6) | Prefix(2)) & Chunks(16)
    model = session(export_attention(mask, opset=23, softcap=5.0))
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, h, 23, 8), np.float32) for h in (4, 2, 2))
    want = attend(*map(torch.from_numpy, (q, k, v)), mask, softcap=5.0)
    past = [np.zeros((2, 2, 0, 8), np.float32)] * 2
    done = 0
    for count in (11, 1, 1, 3, 7):
        now = slice(done, done + count)
        out, *past = model.run(None, {
            "Q": q[:, :, now], "K": k[:, :, now], "V": v[:, :, now],
            "past_key": past[0], "past_value": past[1],
        })  # fmt: skip
        np.testing.assert_allclose(out, want[:, :, now], atol=3e-6)
        done += count
    assert np.array_equal(past[0], k)


def test_exported_static_cache_serves_ragged_rows():
    """Rows of a batch at different positions: each row is the mask at its own."""
    ids = Segments([0])
    mask = Causal() & (ids | Window(2))
    model = export_attention(mask, opset=24, cache="static", inputs={"ids": ids})
    lengths, documents = [7, 11], np.array([np.arange(13) // 4, np.arange(13) // 6])
    cells = np.zeros((2, 1, 3, 13), bool)
    for row, (stop, doc) in enumerate(zip(lengths, documents, strict=True)):
        meant = Causal() & (Segments(doc) | Window(2))
        cells[row, 0] = evaluate(meant, np.arange(stop - 3, stop), np.arange(13))
    feeds = naming(cells) | {"nonpad_kv_seqlen": np.array(lengths), "ids": documents}
    del feeds["past_key"], feeds["past_value"]
    for got in runs(model, feeds):
        assert np.array_equal(got > 0, cells)


def test_exported_inputs_take_the_place_of_data():
    """Packed documents that change at every step, and global tokens, in one model."""
    packed, marked = Segments([0]), Keys(np.array([True]))
    mask = Causal() & (packed | marked)
    model = session(export_attention(mask, inputs={"ids": packed, "marked": marked}))
    random = np.random.default_rng(1)
    for n in (5, 12):
        ids, keys = np.sort(random.integers(-1, 3, (2, n))), random.random((2, n)) < 0.2
        want = evaluate(Causal() & (Segments(ids) | Keys(keys)), np.arange(n), np.arange(n))
        got = model.run(None, naming(want) | {"ids": ids, "marked": keys})[0]
        assert np.array_equal(got > 0, want)


@pytest.mark.parametrize(
    ("mask", "attributes", "computed"),
    [
        (Causal(), {"is_causal": 1}, False),
        (Causal() & Segments([0, 0, 1]), {"is_causal": 1}, True),
        (Causal() & Window(4) & Band(9, 0), {"is_causal": 1, "left_window_size": 3,
                                             "right_window_size": 0}, False),
        (Band(-1, 3), {}, True),
        (BlockCausal(3), {}, True),
    ],
)  # fmt: skip
def test_exported_attributes_are_what_the_operator_says(mask: Mask, attributes, computed):
    model = export_attention(mask, opset=25)
    node = model.graph.node[-1]
    assert {a.name: a.i for a in node.attribute} == attributes
    assert bool(len(node.input) > 3 and node.input[3]) == computed


@pytest.mark.parametrize(
    "mask",
    [
        Segments([0, 0, 1]),
        Keys(np.array([True] * 3)),
        Tree([-1, 0], 1),
        Shift(Segments([0] * 9), 1),
    ],
)
def test_exported_data_ends_where_it_ends(mask: Mask):
    """A position beyond the data that is wrapped around or clamped in silence."""
    model = session(export_attention(mask))
    with pytest.raises(Exception, match=r"out of|bounds|Invalid"):
        model.run(None, naming(np.zeros((1, 1, 4, 4), bool)))


@pytest.mark.parametrize(
    "mask",
    [Predicate(lambda q, k: q > k, "later"), RandomBlocks(4, 2), PerHead((RandomBlocks(1, 1),))],
)
def test_export_refuses_what_is_no_arithmetic(mask: Mask):
    with pytest.raises(Unsupported, match="must be arithmetic in"):
        export_attention(mask & Causal())


def test_export_refuses_options_it_has_not():
    for options, text in (
        ({"opset": 22}, "opset must be"), ({"cache": "paged"}, "cache must be"),
        ({"cache": "static"}, "opset must be 24"), ({"dtype": "int8"}, "dtype must be one of"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            export_attention(Causal(), **options)
    assert export_attention(Nothing(), dtype="float16").graph.input[0].type.tensor_type.elem_type
    assert export_attention(Queries([range(2)]), cache="none").graph.node
