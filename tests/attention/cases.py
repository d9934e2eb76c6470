"""Masks, tensors and error budgets that the tests of attention share."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hitherto.attention import Alibi, Relative, attend
from hitherto.mask import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Dilated,
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
    Strided,
    Table,
    Timeline,
    Tree,
    Window,
    evaluate,
)

QUERIES, KEYS = 137, 200
"""A prime, and a grid with more keys than queries; both cross the tiles' edges."""

_rng = np.random.default_rng(0)
_ids = np.repeat([0, 1, -1, 2, 3], [61, 40, 9, 50, 40])

MASKS: dict[str, Mask] = {
    "everything": Everything(),
    "nothing": Nothing(),
    "causal": Causal(),
    "window": Window(20),
    "band": Band(7, 13),
    "prefix_lm": Causal() | Prefix(90),
    "sinks": Causal() & (Window(30) | Prefix(4)),
    "chunks": Causal() & Chunks(64, start=5),
    "block_causal": BlockCausal(16),
    "packed": Causal() & Segments(_ids),
    "images": Causal() | Segments(np.where(_ids == 1, 0, -1)),
    "padded": Causal() & Segments.padded([KEYS, 90]),
    "left_padded": Causal() & Segments.padded([KEYS, 90], side="left"),
    "cross": Segments(np.repeat([0, 1], [150, 50]), np.repeat([1, 0], [20, 180])),
    "global": (Causal() & Window(9)) | Keys(range(3)) | Queries(range(100, 104)),
    "timeline": Timeline(np.arange(KEYS) / 7, np.arange(KEYS) / 5, lookahead=0.3),
    "dilated": Dilated(6, 5),
    "strided": Strided(3) & Causal(),
    "random_blocks": RandomBlocks(16, 3, 0) & Causal(),
    "tree": Tree([-1, 0, 0, 1, 1, 2, 5, 5, 3, 8], KEYS - 10) & Causal(),
    "table": Table(_rng.random((KEYS, KEYS)) < 0.3),
    "batched_table": Table(_rng.random((2, 4, KEYS, KEYS)) < 0.1) & Causal(),
    "predicate": Predicate(lambda q, k: (q * 7 + k * 3) % 5 < 2, "fifths"),
    "shifted": Shift(Causal() & Chunks(32), q=11, k=3),
    "per_head": PerHead((Causal(), Causal() & Window(8), Nothing(), Causal() & Window(64))),
    "per_group": PerHead((Causal(), Causal(), Window(8), Window(8))) & Segments.padded([150, 200]),
}

LAYOUTS = {
    # name: (heads, kv_heads, head_dim, v_dim)
    "mha": (4, 4, 16, 16),
    "gqa": (4, 2, 16, 16),
    "mqa": (4, 1, 7, 7),
    "wide_v": (4, 2, 16, 24),
}

BIASES = {
    "none": lambda heads, queries, keys: None,
    "alibi": lambda heads, queries, keys: Alibi.geometric(heads),
    "relative": lambda heads, queries, keys: Relative(torch.randn(heads, 41), first=-35),
    "tensor": lambda heads, queries, keys: torch.randn(2, 1, queries, keys),
}


def tensors(layout: str, queries: int, keys: int, seed: int = 0) -> list[Tensor]:
    """Return q, k, v and a gradient of the output, in float64, batch 2."""
    heads, kv_heads, head_dim, v_dim = LAYOUTS[layout]
    random = torch.Generator().manual_seed(seed)
    shapes = [(heads, queries, head_dim), (kv_heads, keys, head_dim), (kv_heads, keys, v_dim),
              (heads, queries, v_dim)]  # fmt: skip
    return [torch.randn(2, *shape, generator=random, dtype=torch.float64) for shape in shapes]


def gradients(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, mask: Mask, **options) -> list[Tensor]:
    """Return the output of `attend` and the gradients of q, k and v."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out = attend(*leaves, mask, **options)
    return [out, *torch.autograd.grad(out, leaves, grad)]


def torch_gradients(
    q: Tensor, k: Tensor, v: Tensor, grad: Tensor, mask: Mask, bias
) -> list[Tensor]:
    """Return the same from torch's own kernel with the dense mask."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    seen = dense(mask, q.shape[2], k.shape[2])
    added = torch.zeros(seen.shape) if bias is None else dense_bias(bias, q.shape[2], k.shape[2])
    added = added.masked_fill(~seen, -torch.inf)
    added = added.double() if q.dtype == torch.float64 else added
    out = scaled_dot_product_attention(*leaves, added, enable_gqa=q.shape[1] != k.shape[1])
    return [out, *torch.autograd.grad(out, leaves, grad)]


def dense(mask: Mask, queries: int, keys: int, q_start: int | None = None) -> Tensor:
    """Return the mask as a bool tensor of four axes."""
    q_start = keys - queries if q_start is None else q_start
    cells = evaluate(mask, np.arange(q_start, q_start + queries), np.arange(keys))
    return torch.tensor(cells)[(None,) * (4 - cells.ndim)]


def dense_bias(bias, queries: int, keys: int) -> Tensor:
    """Return a bias on the whole grid, by its definition, one number at a time where it is one."""
    if isinstance(bias, Tensor):
        return bias
    offset = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
    if isinstance(bias, Alibi):
        return -bias.slopes[None, :, None, None] * offset.abs()
    column = (offset - bias.first).clamp(0, bias.table.shape[1] - 1)
    return torch.stack([row[column] for row in bias.table])[None]


def assert_within_budget(ours: list[Tensor], torchs: list[Tensor], truth: list[Tensor]) -> None:
    """Allow 1.5 times torch's own error and one rounding, all as root mean squares.

    The largest error of a few thousand numbers is a matter of luck; their mean square is not, and
    one wrong cell still moves it far beyond the budget.
    """
    for name, one, other, exact in zip(("out", "dq", "dk", "dv"), ours, torchs, truth, strict=True):
        assert one.dtype == other.dtype
        rounding = torch.finfo(one.dtype).eps * _rms(exact)
        error, allowed = _rms(one.double() - exact), _rms(other.double() - exact)
        assert error <= 1.5 * allowed + rounding, (
            f"{name}: error {error:.3g}, torch's {allowed:.3g}, one rounding {rounding:.3g}"
        )


def _rms(x: Tensor) -> float:
    return x.square().mean().sqrt().item()
