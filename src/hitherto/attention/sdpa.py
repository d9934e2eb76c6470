"""Attention by torch's own `scaled_dot_product_attention`, with the mask as it wants it."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hitherto.attention.bias import tile
from hitherto.attention.grid import outline, visible
from hitherto.attention.spoil import shielded
from hitherto.attention.terms import Inputs, Terms, corner, score_dtype

INF = float("inf")


def run(inputs: Inputs, terms: Terms) -> tuple[Float[Tensor, "batch heads queries v_dim"], None]:
    """Attend; torch reports no lse.

    Cost: memory O(queries * keys) for the mask, unless it is causal from row 0 or hides nothing.
    """
    if outline(terms.mask, terms.grid) == "everything":
        return _run(inputs, terms)
    return shielded(_run, inputs, terms)  # type: ignore[return-value]


def _run(inputs: Inputs, terms: Terms) -> tuple[Tensor, None]:
    q, k, v = inputs[:3]
    shape = outline(terms.mask, terms.grid)
    # torch's is_causal is upper-left: query row i sees keys 0 .. i, whatever the lengths.
    causal = shape == "causal" and terms.form is None
    mask, empty = None, None
    if not causal and (shape != "everything" or terms.form is not None):
        mask, empty = _mask(inputs, terms)
    out = scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=terms.scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return (out if empty is None else out.masked_fill(empty, 0.0)), None


def _mask(inputs: Inputs, terms: Terms) -> tuple[Tensor, Tensor | None]:
    """Return the mask, bool or additive, and which rows see nothing."""
    device = inputs.q.device
    seen = visible(terms.mask, terms.grid).to(device)
    empty = ~seen.any(-1, keepdim=True)
    # Some kernels give NaN or a mean for a row without keys: let it see all, then put 0.
    seen, rows = (seen | empty, empty) if empty.any() else (seen, None)
    if terms.form is None:
        return seen, rows
    at = corner(terms.grid, *(torch.arange(n, device=device) for n in seen.shape[2:]))
    bias = tile(terms.form, inputs.bias, at, score_dtype(inputs.q.dtype))
    return torch.where(seen, bias, -INF), rows
