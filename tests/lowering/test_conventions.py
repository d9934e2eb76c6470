"""Each cell of docs/conventions.md, measured on the library or on the reading of its documents."""

import warnings

import numpy as np
import pytest
import torch
from torch.nn.attention import bias as torch_bias
from torch.nn.attention import flex_attention as module
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import scaled_dot_product_attention

from hitherto.attention import attend
from hitherto.mask import Causal, Nothing, Window, evaluate
from lowering import readings
from lowering.conventions import MARKS, PAGES, ROWS, WORDS, table

Q, K, W = 3, 7, 2
"""Queries, keys, and what is given as a window."""

TOP_LEFT = np.tri(Q, K, dtype=bool)
BOTTOM_RIGHT = np.tri(Q, K, K - Q, dtype=bool)


def corner_of(seen) -> str:
    """Name the corner of a causal mask of Q x K."""
    seen = np.asarray(seen).reshape(Q, K)
    return {TOP_LEFT.tobytes(): "top-left", BOTTOM_RIGHT.tobytes(): "bottom-right"}[seen.tobytes()]


def kept(seen, given: str) -> str:
    """Name how many keys the widest row of a window keeps; W is w, or l = W and r = 1."""
    most = int(np.asarray(seen).sum(-1).max())
    names = {"w": W, "w + 1": W + 1} if given == "w" else {"l + 1 + r": W + 1 + 1}
    return next(name for name, n in names.items() if n == most)


def outcome(out) -> str:
    """Name what an empty row became; the values were 1, 2, 3, .. along the keys."""
    out = np.asarray(out, dtype=np.float64)
    if np.isnan(out).any():
        return "NaN"
    return "zeros" if not out.any() else "mean" if np.allclose(out, (K + 1) / 2) else str(out)


def tensors(queries: int = Q, keys: int = K):
    v = torch.arange(1.0, keys + 1).reshape(1, 1, keys, 1).expand(1, 1, keys, 8).contiguous()
    return torch.zeros(1, 1, queries, 8), torch.zeros(1, 1, keys, 8), v


def one_hot(attention) -> np.ndarray:
    """Ask a torch attention which of K keys Q rows see."""
    q, k, _ = tensors()
    return (attention(q, k, torch.eye(K)[None, None]) > 0).numpy()


def hitherto_row():
    q, k, v = tensors()
    first = evaluate(Causal(), np.arange(K - Q, K), np.arange(K))
    return {
        "polarity": "attend" if evaluate(Causal(), [1], [0])[0, 0] else "hide",
        "window": kept(evaluate(Window(W), np.arange(K), np.arange(K)), "w"),
        "corner": "position" if corner_of(first) == "bottom-right" else "?",
        "empty": outcome(attend(q, k, v, Nothing())),
    }


def sdpa_row():
    q, k, v = tensors()
    first = torch.arange(K) == 0
    seen = one_hot(lambda q, k, v: scaled_dot_product_attention(q, k, v, first.expand(Q, K)))
    return {
        "polarity": "attend" if seen[..., 0].all() and not seen[..., 1:].any() else "hide",
        "corner": corner_of(
            one_hot(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True))
        ),
        "empty": outcome(
            scaled_dot_product_attention(q, k, v, torch.zeros(Q, K, dtype=torch.bool))
        ),
    }


def mha_row():
    model = torch.nn.MultiheadAttention(K, 1, bias=False, batch_first=True)
    with torch.no_grad():
        model.in_proj_weight.zero_()
        model.in_proj_weight[2 * K :] = torch.eye(K)
        model.out_proj.weight.copy_(torch.eye(K))
    q, v = torch.zeros(1, Q, K), torch.eye(K)[None]

    def run(hidden, weights=False):
        return model(q, v, v, attn_mask=hidden, need_weights=weights)[0].detach().numpy()

    seen = run((torch.arange(K) == 0).expand(Q, K)) > 0
    empty = [run(torch.ones(Q, K, dtype=torch.bool), weights) for weights in (False, True)]
    return {
        "polarity": "hide" if not seen[..., 0].any() and seen[..., 1:].all() else "attend",
        "corner": "mask",
        "empty": f"{outcome(empty[0])}, or {outcome(empty[1])} with weights",
    }


def causal_bias_row():
    named = [corner_of(f(Q, K)._materialize()) for f in
             (torch_bias.causal_upper_left, torch_bias.causal_lower_right)]  # fmt: skip
    q, k, v = tensors(K, Q)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        bias = torch_bias.causal_lower_right(K, Q)
    assert "NaN" in str(said[0].message)
    out = outcome(scaled_dot_product_attention(q, k, v, attn_mask=bias)[:, :, : K - Q])
    assert out in ("zeros", "NaN")
    return {
        "corner": "name" if named == ["top-left", "bottom-right"] else "?",
        "empty": "zeros or NaN",
    }


def flex_row():
    seen = create_mask(lambda b, h, q, k: k <= q, None, None, Q, K, "cpu")
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        blocks = module.create_block_mask(lambda b, h, q, k: k < 0, None, None, Q, K, "cpu")
        out = module.flex_attention(*tensors(), block_mask=blocks)
    finally:
        module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False
    one = create_mask(lambda b, h, q, k: (q == 1) & (k == 2), None, None, Q, K, "cpu")
    return {
        "polarity": "attend" if one.sum() == 1 else "hide",
        "corner": "numbers" if corner_of(seen) == "top-left" else "?",
        "empty": outcome(out),
    }


def gym_row():
    masks = pytest.importorskip("attn_gym.masks", reason="attn-gym is not installed")
    mod = masks.generate_sliding_window(W)
    return flex_row() | {"window": kept(create_mask(mod, None, None, K, K, "cpu"), "w")}


def transformers_rows(eager: bool):
    masks = pytest.importorskip("transformers.masking_utils", reason="no transformers")
    make = masks.eager_mask if eager else masks.sdpa_mask
    options = {} if eager else {"allow_is_causal_skip": False}
    window = masks.sliding_window_causal_mask_function(W)

    def seen(*args, **more):
        mask = make(1, *args, **more, **options)
        return (mask == 0 if eager else mask).numpy()

    q, k, v = tensors()
    nothing = make(1, Q, K, K - Q, 0, lambda b, h, q, k: k < 0, use_vmap=True, **options)
    return {
        "polarity": "add" if nothing.is_floating_point() else "attend",
        "window": kept(seen(K, K, mask_function=window), "w"),
        "corner": "position" if corner_of(seen(Q, K, K - Q)) == "bottom-right" else "?",
        "empty": outcome(scaled_dot_product_attention(q, k, v, nothing)),
    }


def flash_row():
    empty = np.array(readings.flash_piece(K, Q, True, (-1, -1)))[: K - Q]
    return {
        "window": kept(readings.flash_piece(K, K, False, (W, 0)), "w"),
        "corner": corner_of(readings.flash_piece(Q, K, True, (-1, -1))),
        "empty": None if empty.any() else "zeros",
    }


def flash4_row():
    return {
        "polarity": "attend",
        "window": kept(readings.flash_piece(K, K, False, (W, 1)), "l"),
        "corner": corner_of(readings.flash_piece(Q, K, True, (-1, -1))),
    }


def xformers_rows(local: bool):
    reason = "pip install xformers==0.0.35"
    fmha = pytest.importorskip("xformers.ops.fmha.attn_bias", reason=reason)
    causal = fmha.LowerTriangularFromBottomRightMask()
    bias = fmha.LocalAttentionFromBottomRightMask(W, 1) if local else causal.make_local_attention(W)
    square, wide = (bias.materialize((n, K)) for n in (K, Q))
    corners = [corner_of(m.materialize((Q, K)) == 0) for m in (fmha.LowerTriangularMask(), causal)]
    q, k, v = tensors(K, Q)
    weights = (q @ k.mT + causal.materialize((K, Q))).softmax(-1)
    assert wide.shape == (Q, K)
    return {
        "polarity": "add" if set(square.unique().tolist()) == {-np.inf, 0.0} else "?",
        "window": kept(square == 0, "l" if local else "w"),
        "corner": "bottom-right"
        if local
        else ["?", "name"][corners == ["top-left", "bottom-right"]],
        "empty": outcome((weights @ v)[:, :, : K - Q]),
    }


def flashmask_row():
    seen = readings.flashmask(3, 1, [[1, 2, 0, 0]], False)
    # Paddle turns window_size=w into a first hidden row of key + w + 1.
    window = readings.flashmask(K, K, [[j + W + 1] for j in range(K)], True)
    return {
        "polarity": "rows hidden" if seen == [[True], [False], [True]] else "?",
        "window": kept(window, "w"),
        "corner": "?",
    }


def magi_row():
    causal, inverse = (readings.magi(Q, K, [(0, Q)], [(0, K)], [kind]) for kind in (1, 2))
    assert corner_of(causal) == "bottom-right"
    assert inverse == np.triu(np.ones((Q, K), bool)).tolist()
    return {"corner": "slice", "empty": "?"}


def flashinfer_row():
    first = readings.flashinfer_bits([0b00000001], 1, 8, 1)[0][0]
    return {
        "polarity": "attend" if first == [True] + [False] * 7 else "?",
        "window": kept(readings.flashinfer_arguments(K, K, True, W), "w"),
        "corner": corner_of(readings.flashinfer_arguments(Q, K, True, -1)),
        "empty": "?",
    }


def transformer_engine_row():
    def read(kind, window=(-1, -1)):
        return readings.transformer_engine_type(Q, K, kind, window)

    corners = corner_of(read("causal")), corner_of(read("causal_bottom_right"))
    hidden = torch.zeros(1, 1, Q, K).masked_fill(torch.ones(Q, K, dtype=torch.bool), -10000.0)
    return {
        "polarity": "hide",
        "window": kept(readings.transformer_engine_type(K, K, "no_mask", (W, 1)), "l"),
        "corner": "type" if corners == ("top-left", "bottom-right") else "?",
        "empty": outcome(hidden.softmax(-1) @ tensors()[2]),
    }


def jax_row():
    jax = pytest.importorskip("jax", reason="install hitherto[jax]")
    q, k, v = (x[0].transpose(0, 1)[None].numpy() for x in tensors())
    eye = np.eye(K, dtype=np.float32)[None, :, None]

    def seen(n, **more):
        queries = np.zeros((1, n, 1, K), np.float32)
        keys = np.zeros((1, K, 1, K), np.float32)
        return np.asarray(jax.nn.dot_product_attention(queries, keys, eye, **more))[0, :, 0] > 0

    first = seen(Q, mask=np.broadcast_to(np.arange(K) == 0, (1, 1, Q, K)))
    nothing = np.zeros((1, 1, Q, K), bool)
    return {
        "polarity": "attend" if first[:, 0].all() and not first[:, 1:].any() else "hide",
        "window": kept(seen(K, local_window_size=(W, 1)), "l"),
        "corner": corner_of(seen(Q, is_causal=True)),
        "empty": outcome(jax.nn.dot_product_attention(q, k, v, mask=nothing)),
    }


def splash_row():
    name = "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask"
    splash = pytest.importorskip(name, reason="install hitherto[jax]")
    corners = [corner_of(splash.CausalMask((Q, K), offset=n)[:, :]) for n in (0, K - Q)]
    return {
        "polarity": "attend" if splash.FullMask((Q, K))[:, :].all() else "hide",
        "window": kept(splash.LocalMask((K, K), (W, 1), 0)[:, :], "l"),
        "corner": "offset" if corners == ["top-left", "bottom-right"] else "?",
        "empty": "?",
    }


def onnx_row():
    pytest.importorskip("onnx", reason="install hitherto[onnx]")
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    def run(values, queries=Q, past=0, mask=None, **more):
        x = {"Q": np.zeros((1, 1, queries, K), np.float32), "V": values[:, :, past:],
             "K": np.zeros((1, 1, K - past, K), np.float32)}  # fmt: skip
        names = ["Q", "K", "V", ""]
        if mask is not None:
            x["attn_mask"], names[3] = mask, "attn_mask"
        if past:
            x |= {"past_key": np.zeros((1, 1, past, K), np.float32),
                  "past_value": values[:, :, :past]}  # fmt: skip
            names += ["past_key", "past_value"]
        node = helper.make_node("Attention", names, ["Y", "pk", "pv"] if past else ["Y"], **more)
        kinds = {"attn_mask": TensorProto.BOOL}
        inputs = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), a.shape)
                  for n, a in x.items()]  # fmt: skip
        out = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)]
        graph = helper.make_graph([node], "one", inputs, out)
        opset = [helper.make_opsetid("", 25)]
        model = helper.make_model(graph, opset_imports=opset)
        return np.asarray(ReferenceEvaluator(model).run(["Y"], x)[0])

    eye = np.eye(K, dtype=np.float32)[None, None]
    first = run(eye, mask=np.broadcast_to(np.arange(K) == 0, (Q, K)).copy()) > 0
    corners = [
        corner_of(run(eye, is_causal=1) > 0),
        corner_of(run(eye, past=K - Q, is_causal=1) > 0),
    ]
    steps = np.broadcast_to(np.arange(1, K + 1, dtype=np.float32)[:, None], (1, 1, K, K)).copy()
    return {
        "polarity": "attend" if first[..., 0].all() and not first[..., 1:].any() else "hide",
        "window": kept(run(eye, K, left_window_size=W, right_window_size=1) > 0, "l"),
        "corner": "past" if corners == ["top-left", "bottom-right"] else "?",
        "empty": outcome(run(steps, mask=np.zeros((Q, K), bool))),
    }


MEASURED = {
    "hitherto": hitherto_row,
    "torch scaled_dot_product_attention": sdpa_row,
    "torch nn.MultiheadAttention, nn.Transformer": mha_row,
    "torch nn.attention.bias": causal_bias_row,
    "torch FlexAttention": flex_row,
    "torch varlen_attn": flash_row,
    "attention-gym": gym_row,
    "transformers, sdpa": lambda: transformers_rows(eager=False),
    "transformers, eager": lambda: transformers_rows(eager=True),
    "flash-attn 2.1 and later, 3": flash_row,
    "FlashAttention-4": flash4_row,
    "xFormers 0.0.35": lambda: xformers_rows(local=False),
    "xFormers 0.0.35, LocalAttention...": lambda: xformers_rows(local=True),
    "FlashMask": flashmask_row,
    "MagiAttention": magi_row,
    "flashinfer": flashinfer_row,
    "Transformer Engine": transformer_engine_row,
    "jax.nn.dot_product_attention": jax_row,
    "JAX splash attention": splash_row,
    "ONNX Attention": onnx_row,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_conventions_are_as_the_page_says(row):
    """A table that was right for an older release."""
    for column, found in MEASURED[row.name]().items():
        assert getattr(row, column) == found, column


@pytest.mark.parametrize("language", PAGES)
def test_pages_hold_the_table(language):
    """A cell changed in one language only. To renew: python tests/lowering/conventions.py."""
    text = PAGES[language].read_text(encoding="utf-8")
    inside = text.split(MARKS[0])[1].split(MARKS[1])[0]
    assert inside == "\n" + table(language) + "\n"


def test_every_library_and_every_word_is_checked():
    """A row that nobody measures, a code without words."""
    assert list(MEASURED) == [row.name for row in ROWS]
    used = {code for row in ROWS for code in (row.polarity, row.corner, row.empty, row.how)}
    assert used <= set(WORDS)
