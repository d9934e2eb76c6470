"""The attention weights themselves, for looking at: of the rows and heads that are asked for."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from hitherto.attention.bias import Bias, Corner, tile
from hitherto.attention.prepare import prepare
from hitherto.attention.reference import INF, _finite
from hitherto.attention.terms import Inputs, Terms, score_dtype
from hitherto.errors import explain
from hitherto.mask import Mask, evaluate


def attention_weights(
    q: Float[Tensor, "batch heads queries head_dim"],
    k: Float[Tensor, "batch kv_heads keys head_dim"],
    mask: Mask,
    *,
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " heads"] | None = None,
    q_start: int | None = None,
    k_pos: Int[Tensor, " keys"] | Int[np.ndarray, " keys"] | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the share that each key's value has in the output of some rows and heads of `attend`.

    Meaning: `attend(q, k, v, ...)[:, heads][:, :, rows]` is the result `@ v`, whichever backend ran
    it. A row sums to 1; to less with a sink, which takes the rest; to 0 where it sees no key.

    Args:
        q: queries, as `attend` takes them.
        k: keys.
        mask: who may attend to whom.
        rows: rows of q, from 0; negative ones count from the end. All unless given.
        heads: query heads, from 0. All unless given.
        bias: as for `attend`; so are all that follow.
        scale: factor on the scores.
        softcap: cap on the scores' size.
        sinks: a logit a head.
        q_start: position of the first query.
        k_pos: positions of the keys.
    Returns:
        (batch, chosen heads, chosen rows, keys), float32, or float64 for float64 inputs.
    Raises:
        ValueError: a row or head that q has not, or tensors that do not fit together.
    Cost: O(chosen heads * chosen rows * keys) time and memory; no queries x keys array.
    """
    inputs, terms = prepare(q, k, k, mask, bias, scale, softcap, sinks, q_start, k_pos)
    chosen_rows = _chosen("rows", rows, q.shape[2], q.device)
    chosen_heads = _chosen("heads", heads, q.shape[1], q.device)
    return _weights(inputs, terms, chosen_rows, chosen_heads)


def _chosen(argument: str, value: Sequence[int] | None, size: int, device: torch.device) -> Tensor:
    if value is None:
        return torch.arange(size, device=device)
    index = torch.as_tensor(list(value), dtype=torch.int64, device=device)
    if ((index < -size) | (index >= size)).any():
        raise ValueError(
            explain(argument, f"must lie in 0..{size - 1}", list(value), "pick those that q has")
        )
    return index % max(size, 1)


def _weights(inputs: Inputs, terms: Terms, rows: Tensor, heads: Tensor) -> Tensor:
    dtype = score_dtype(inputs.q.dtype)
    groups = inputs.q.shape[1] // inputs.k.shape[1]
    seen = _seen(terms, rows, heads).to(inputs.q.device)
    q, q_bad = _finite(inputs.q[:, heads][:, :, rows].to(dtype))
    k, k_bad = _finite(inputs.k.to(dtype)[:, heads // groups])
    scores = q @ k.mT * terms.scale
    if terms.softcap is not None:
        scores = terms.softcap * torch.tanh(scores / terms.softcap)
    if terms.form is not None:
        scores = scores + _bias(inputs, terms, rows, heads, dtype)
    scores = scores.masked_fill(~seen, -INF)
    top = scores.amax(-1, keepdim=True)
    if inputs.sinks is not None:
        sink = inputs.sinks.to(dtype)[heads, None, None]
        top = torch.maximum(top, sink)
    top = top.masked_fill(top == -INF, 0.0)
    shares = (scores - top).exp()
    total = shares.sum(-1, keepdim=True)
    if inputs.sinks is not None:
        total = total + (sink - top).exp()
    spoilt = (seen & (q_bad.unsqueeze(-1) | k_bad.unsqueeze(-2))).any(-1, keepdim=True)
    weights = (shares / total.masked_fill(total == 0, 1.0)).masked_fill(spoilt, float("nan"))
    return weights.masked_fill(~seen, 0.0)


def _seen(terms: Terms, rows: Tensor, heads: Tensor) -> Tensor:
    """Evaluate the mask at the chosen rows: (batch or 1, heads or 1, rows, keys)."""
    q_pos = terms.grid.q_start + rows.cpu().numpy()
    cells = evaluate(terms.mask, q_pos, terms.grid.k_pos)
    grid = torch.from_numpy(np.array(cells))[(None,) * (4 - cells.ndim)]
    return grid if grid.shape[1] == 1 else grid[:, heads.cpu()]


def _bias(inputs: Inputs, terms: Terms, rows: Tensor, heads: Tensor, dtype: torch.dtype) -> Tensor:
    positions = torch.from_numpy(np.ascontiguousarray(terms.grid.k_pos)).to(rows.device)
    at = Corner(
        rows=rows,
        keys=torch.arange(terms.grid.k_len, device=rows.device),
        q_pos=rows + terms.grid.q_start,
        k_pos=positions,
    )
    added = tile(terms.form, inputs.bias, at, dtype)
    return added if added.shape[1] == 1 else added[:, heads]
