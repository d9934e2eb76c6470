"""A mask as an ONNX model of one attention, for any lengths, with a cache or without."""

from collections.abc import Mapping
from typing import Any, Literal

from hitherto.errors import explain
from hitherto.lowering.library import library
from hitherto.lowering.onnx_graph import Cells, Graph, Name
from hitherto.mask import And, Band, Causal, Everything, Keys, Mask, Queries, Segments, Window

Cache = Literal["none", "past", "static"]

TYPES = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float64": "DOUBLE"}

_CACHE_AXES = ("batch", "kv_heads")


def export_attention(
    mask: Mask,
    *,
    opset: int = 23,
    cache: Cache = "past",
    inputs: Mapping[str, Segments | Queries | Keys] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dtype: str = "float32",
) -> Any:
    """Return an ONNX model of `attend(Q, K, V, mask)` in which every length is dynamic.

    What the operator can say itself (causal, and windows from opset 25, as far as they are joined
    to the rest by `&`) is its attribute; all else is computed in the graph from positions.

    Inputs are `Q` (batch, heads, queries, head_dim), `K` (batch, kv_heads, new keys, head_dim) and
    `V`; the output is `Y`. With the cache they also are

        none    nothing more: the queries are the last of the keys
        past    past_key, past_value -> present_key, present_value: the queries, as many as new
                keys, come after the past, which may be empty: one model for prefill and decode
        static  nonpad_kv_seqlen, int64 (batch,): K and V are whole buffers, of which so many are
                filled; the queries are the last of these, in each batch row (opset 24)

    Args:
        mask: any mask but `Predicate` and `RandomBlocks`.
        opset: 23, 24 or 25.
        cache: where keys come from, as above.
        inputs: name of a further input: the mask inside `mask` whose data it takes the place of.
            `{"ids": packed}` makes the ids of `Segments` an int64 input (batch, positions), and the
            bools of `Queries` or `Keys` a bool one.
        scale: factor on the scores; 1 / sqrt(head_dim) by default.
        softcap: scores become `softcap * tanh(score / softcap)`.
        dtype: "float32", "float16", "bfloat16" or "float64" (not every runtime has every one).
    Returns:
        a checked ModelProto; `onnx.save(model, path)` writes it.
    Raises:
        Unsupported: a mask that cannot be computed from positions.
    """
    onnx = library("onnx", "onnx")
    helper = onnx.helper
    _require(opset, cache, dtype)
    kind = getattr(onnx.TensorProto, TYPES[dtype])
    named: dict[Mask, Name] = {part: name for name, part in (inputs or {}).items()}
    g = Graph()
    attributes, rest = ({}, mask) if cache == "none" else said(mask, opset)
    shown = "" if rest == Everything() else _shown(g, rest, cache, named)
    names = ["Q", "K", "V", shown, *_if(cache == "past", "past_key", "past_value")]
    names += ["", "", "nonpad_kv_seqlen"] if cache == "static" else []
    if scale is not None:
        attributes["scale"] = float(scale)
    if softcap is not None:
        attributes["softcap"] = float(softcap)
    outputs = ["Y", *_if(cache == "past", "present_key", "present_value")]
    while not names[-1]:
        names.pop()
    g.nodes.append(helper.make_node("Attention", names, outputs, **attributes))
    graph = helper.make_graph(
        g.nodes, "attention", [*_inputs(cache, kind), *_data_inputs(inputs or {})],
        _outputs(cache, kind), list(g.constants.values()), doc_string=str(mask)[:1000],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph, opset_imports=opsets, producer_name="hitherto",
        ir_version=helper.find_min_ir_version_for(opsets),
    )  # fmt: skip
    onnx.checker.check_model(model, full_check=True)
    return model


def said(mask: Mask, opset: int) -> tuple[dict[str, Any], Mask]:
    """Part a mask into attributes of `Attention` and the rest, to be joined by `&`."""
    attributes: dict[str, Any] = {}
    rest: Mask = Everything()
    for part in _joined(mask):
        match part:
            case Everything():
                continue
            case Causal():
                attributes["is_causal"] = 1
                continue
            case Window(width=width) if opset >= 25:
                bounds = {"left": width - 1, "right": 0}
            case Band(before=before, after=after) if (
                opset >= 25 and min(before or 0, after or 0) >= 0
            ):
                bounds = {"left": before, "right": after}
            case _:
                rest = part if rest == Everything() else rest & part
                continue
        for side, reach in bounds.items():
            if reach is not None:
                name = f"{side}_window_size"
                attributes[name] = min(reach, attributes.get(name, reach))
    return attributes, rest


def _joined(mask: Mask) -> list[Mask]:
    if isinstance(mask, And):
        return _joined(mask.left) + _joined(mask.right)
    return [mask]


def _shown(g: Graph, mask: Mask, cache: Cache, inputs: Mapping[Mask, Name]) -> Name:
    """Return the mask's cells, from the positions of the queries and keys."""
    queries, total, batch = g.size("Q", 2), g.size("K", 2), g.size("Q", 0)
    zero = g.constant([0])
    if cache == "past":
        start = g.size("past_key", 2)
        total = g("Add", start, total)
    elif cache == "none":
        start = g("Sub", total, queries)
    if cache == "static":
        ends = g("Unsqueeze", "nonpad_kv_seqlen", g.constant([1]))
        q = g("Add", g("Sub", ends, queries), g.positions(zero, queries))
    else:
        q = g.positions(start, queries)
    cells = Cells(g, q, g.positions(zero, total), batch, inputs, *(cache == "static",) * 2)
    return cells.filled(cells.of(mask))


def _inputs(cache: Cache, kind: int) -> list[Any]:
    from onnx import TensorProto, helper

    new = {"none": "keys", "past": "queries", "static": "buffer"}[cache]
    shapes = {
        "Q": ("batch", "heads", "queries", "head_dim"),
        "K": (*_CACHE_AXES, new, "head_dim"),
        "V": (*_CACHE_AXES, new, "v_dim"),
    }
    if cache == "past":
        shapes["past_key"] = (*_CACHE_AXES, "past", "head_dim")
        shapes["past_value"] = (*_CACHE_AXES, "past", "v_dim")
    listed = [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]
    if cache == "static":
        lengths = helper.make_tensor_value_info("nonpad_kv_seqlen", TensorProto.INT64, ("batch",))
        listed.append(lengths)
    return listed


def _data_inputs(inputs: Mapping[str, Mask]) -> list[Any]:
    from onnx import TensorProto, helper

    kinds = {name: TensorProto.INT64 if isinstance(mask, Segments) else TensorProto.BOOL
             for name, mask in inputs.items()}  # fmt: skip
    return [helper.make_tensor_value_info(name, kind, ("batch", f"{name}_positions"))
            for name, kind in kinds.items()]  # fmt: skip


def _outputs(cache: Cache, kind: int) -> list[Any]:
    from onnx import helper

    shapes = {"Y": ("batch", "heads", "queries", "v_dim")}
    if cache == "past":
        shapes["present_key"] = (*_CACHE_AXES, "total", "head_dim")
        shapes["present_value"] = (*_CACHE_AXES, "total", "v_dim")
    return [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]


def _if(condition: bool, *names: str) -> tuple[str, ...]:
    return names if condition else ()


def _require(opset: int, cache: str, dtype: str) -> None:
    if opset not in (23, 24, 25):
        raise ValueError(explain("opset", "must be 23, 24 or 25", opset, "Attention begins at 23"))
    if cache not in ("none", "past", "static"):
        raise ValueError(
            explain("cache", "must be 'none', 'past' or 'static'", cache, "say where keys are from")
        )
    if cache == "static" and opset == 23:
        raise ValueError(
            explain("opset", "must be 24 or more for a static cache", opset, "pass opset=24")
        )
    if dtype not in TYPES:
        raise ValueError(explain("dtype", f"must be one of {', '.join(TYPES)}", dtype, "name one"))
