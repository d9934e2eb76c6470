"""Numbers that are not finite: they spoil the rows that see them, and no other.

Kernels multiply hidden values by 0, and 0 * NaN is NaN. So where a mask hides something, NaN and
Inf are taken out before the kernel and marked after it. A row that sees one (or is one) comes out
NaN and sends no gradient back; every other row, and every gradient, is as if they were not there.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from hitherto.attention.grid import layout
from hitherto.attention.rows import entries
from hitherto.attention.terms import Inputs, Terms, score_dtype
from hitherto.mask import Spans

Backend = Callable[[Inputs, Terms], tuple[Tensor, Tensor | None]]
ROWS_AT_ONCE = 1024


def shielded(backend: Backend, inputs: Inputs, terms: Terms) -> tuple[Tensor, Tensor | None]:
    """Run a backend on finite numbers only, and mark the rows that saw others."""
    if is_finite(inputs):
        return backend(inputs, terms)
    spoilt = _spoilt(inputs, terms)
    clean = (torch.where(torch.isfinite(x), x, 0.0) for x in inputs[:3])
    out, lse = backend(inputs._replace(**dict(zip("qkv", clean, strict=True))), terms)
    out = out.masked_fill(spoilt[..., None], float("nan"))
    return out, None if lse is None else lse.masked_fill(spoilt, float("nan"))


def is_finite(inputs: Inputs) -> bool:
    """Say so from three sums: it may raise a false alarm (by overflow), never miss a NaN or Inf."""
    total = sum(x.detach().sum(dtype=score_dtype(x.dtype)) for x in inputs[:3])
    return bool(torch.isfinite(total))  # type: ignore[arg-type]


def _spoilt(inputs: Inputs, terms: Terms) -> Bool[Tensor, "batch heads queries"]:
    q_bad, k_bad, v_bad = ((~torch.isfinite(x)).any(-1) for x in inputs[:3])
    bad = (k_bad | v_bad).repeat_interleave(inputs.q.shape[1] // inputs.k.shape[1], 1)
    # before[..., j]: how many bad keys lie before slot j.
    before = pad(bad.flatten(0, 1).cumsum(-1), (1, 0))
    batch = layout(terms.mask, terms.grid)
    owner = np.broadcast_to(batch.index, inputs.q.shape[:2]).ravel()
    heads = [np.flatnonzero(owner == i) for i in range(len(batch.spans))]
    parts = [
        _meets(spans, before[at], q_bad.flatten(0, 1)[at])
        for spans, at in zip(batch.spans, heads, strict=True)
    ]
    back = np.argsort(np.concatenate(heads))
    return torch.cat(parts)[back].view(q_bad.shape)


def _meets(
    spans: Spans, before: Int[Tensor, "heads slots"], q_bad: Bool[Tensor, "heads queries"]
) -> Bool[Tensor, "heads queries"]:
    """Say which rows see a bad key, or are bad and see any."""
    parts = []
    for start in range(0, spans.q_len, ROWS_AT_ONCE):
        own = q_bad[:, start : start + ROWS_AT_ONCE]
        row, lo, hi = (
            torch.from_numpy(x).to(before.device)
            for x in entries(spans, start, start + own.shape[1])
        )
        meets = ((before[:, hi] > before[:, lo]) | own[:, row]) & (hi > lo)
        count = torch.zeros_like(own, dtype=torch.int64).index_add(1, row, meets.long())
        parts.append(count > 0)
    return torch.cat(parts, 1)
