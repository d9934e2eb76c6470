"""Other libraries' attention on the CPU, for bench_attention.py: forward only, each where it is."""

from collections.abc import Callable

import torch
from torch import Tensor

from hitherto.lowering import lower
from hitherto.mask import Causal, Everything, Mask

Run = Callable[[], object]


def flex(mask: Mask, q: Tensor, k: Tensor, v: Tensor) -> Run | None:
    """Compiled `flex_attention` with an exact BlockMask; None where it does not compile."""
    from torch.nn.attention.flex_attention import flex_attention

    table = lower(mask, "flex", q.shape[2], k.shape[2])
    compiled = torch.compile(flex_attention, dynamic=False)
    x = [t.detach() for t in (q, k, v)]

    def run() -> Tensor:
        return compiled(*x, block_mask=table, enable_gqa=q.shape[1] != k.shape[1])

    try:
        run()
    except Exception as error:  # whatever the compiler says, there is no peer here
        print(f"flex_attention does not compile for {mask}: {type(error).__name__}")
        return None
    return run


def onnx(mask: Mask, q: Tensor, k: Tensor, v: Tensor) -> Run | None:
    """The `Attention` of onnxruntime, for the two masks that it knows; None where it is absent."""
    if mask not in (Causal(), Everything()) or q.dtype != torch.float32:
        return None
    try:
        from onnx import TensorProto, helper
        from onnxruntime import InferenceSession, SessionOptions
    except ImportError:
        return None
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape)
        for name, x in zip("qkv", (q, k, v), strict=True)
    ]
    node = helper.make_node("Attention", list("qkv"), ["out"], is_causal=int(mask == Causal()))
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, q.shape)
    graph = helper.make_graph([node], "attention", inputs, [out])
    opsets = [helper.make_opsetid("", 23)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=11)
    options = SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # Its threads must not spin while the other runs are timed.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feeds = {name: x.detach().numpy() for name, x in zip("qkv", (q, k, v), strict=True)}
    return lambda: session.run(None, feeds)
