"""Attention in plain Python loops and floats: no tensors, no mask code but the plain oracle."""

import math

import oracle
from hitherto.mask import Mask


def attention(
    q: list, k: list, v: list, mask: Mask, q_start: int, k_pos: list[int], scale: float,
    softcap: float | None = None, sink: float | None = None,
) -> tuple[list, list]:  # fmt: skip
    """Return (out, lse) of one head, as lists of rows."""
    outs, lses = [], []
    for i, query in enumerate(q):
        seen = [j for j, at in enumerate(k_pos) if oracle.visible(mask, q_start + i, at)]
        scores = [scale * sum(x * y for x, y in zip(query, k[j], strict=True)) for j in seen]
        if softcap is not None:
            scores = [softcap * math.tanh(s / softcap) for s in scores]
        terms = [math.exp(s) for s in scores]
        total = sum(terms) + (math.exp(sink) if sink is not None else 0.0)
        outs.append([sum(t * v[j][c] for t, j in zip(terms, seen, strict=True)) / (total or 1.0)
                     for c in range(len(v[0]))])  # fmt: skip
        lses.append(math.log(total) if seen else -math.inf)
    return outs, lses
