"""The public door: `attend` computes, `choose` says how it would."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from hitherto.attention import operator
from hitherto.attention.bias import Bias
from hitherto.attention.choose import Choice, pick
from hitherto.attention.prepare import prepare
from hitherto.attention.run import run
from hitherto.mask import Mask


def attend(
    q: Float[Tensor, "batch heads queries head_dim"],
    k: Float[Tensor, "batch kv_heads keys head_dim"],
    v: Float[Tensor, "batch kv_heads keys v_dim"],
    mask: Mask,
    *,
    bias: Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " heads"] | None = None,
    q_start: int | None = None,
    k_pos: Int[Tensor, " keys"] | Int[np.ndarray, " keys"] | None = None,
    return_lse: bool = False,
    backend: str = "auto",
) -> (
    Float[Tensor, "batch heads queries v_dim"]
    | tuple[Float[Tensor, "batch heads queries v_dim"], Float[Tensor, "batch heads queries"]]
):
    """Let every query take the mean of the values it may see, weighted by softmax of its scores.

    Meaning: `score = scale * q @ k`, then `softcap * tanh(score / softcap)`, then `+ bias`, then
    -inf where the mask hides; `out = softmax(score) @ v`. A sink is one more logit in each row's
    denominator, with no value. Scores and softmax are in float32, or in float64 for float64.

    - A row that sees no key gives zeros, lse -inf and zero gradients.
    - A hidden key or value reaches no output and no gradient, even if it is NaN or Inf. A row that
      sees a number that is not finite comes out NaN.

    Args:
        q: queries; `heads` is a multiple of `kv_heads`, and query head h reads kv head
            `h // (heads / kv_heads)`.
        k: keys.
        v: values; `v_dim` may differ from `head_dim`.
        mask: who may attend to whom, by absolute positions; its batch and head axes broadcast.
        bias: `Alibi`, `Relative`, or a tensor that broadcasts to (batch, heads, queries, keys).
        scale: factor on the scores; 1 / sqrt(head_dim) by default.
        softcap: cap on the scores' size, as in Gemma 2 (50.0 there).
        sinks: a learned logit a head, as in gpt-oss.
        q_start: position of the first query. By default queries are the last of the keys'
            positions: `keys - queries`, or `k_pos[-1] + 1 - queries`.
        k_pos: increasing positions of the keys, for a cache that forgot some; `0 .. keys` if None.
        return_lse: also return the log of each row's softmax denominator, sink included: float32
            (float64 for float64 inputs).
        backend: "auto", "reference", "sdpa", "tiled" or "native"; see `choose`.
    Returns:
        the output in q's dtype; with `return_lse`, (output, lse).
    Raises:
        ValueError: tensors that do not fit together. Fix: as the message says.
        MaskError: a mask that does not fit the tensors or the positions.
        Unsupported: a backend that cannot do exactly this. Fix: one that the message lists.
    Cost: "tiled": time O(visible tiles), memory O(queries + keys); the others O(queries * keys).
    """
    if torch.compiler.is_compiling():
        out, lse = operator.attend(
            q, k, v, mask, bias=bias, scale=scale, softcap=softcap, sinks=sinks, q_start=q_start,
            k_pos=k_pos, return_lse=return_lse, backend=backend,
        )  # fmt: skip
        return (out, lse) if return_lse else out
    inputs, terms = prepare(q, k, v, mask, bias, scale, softcap, sinks, q_start, k_pos)
    out, lse = run(inputs, terms, return_lse, backend)
    return (out, lse) if return_lse else out


def choose(
    q: Float[Tensor, "batch heads queries head_dim"],
    k: Float[Tensor, "batch kv_heads keys head_dim"],
    v: Float[Tensor, "batch kv_heads keys v_dim"],
    mask: Mask,
    *,
    bias: Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " heads"] | None = None,
    q_start: int | None = None,
    k_pos: Int[Tensor, " keys"] | Int[np.ndarray, " keys"] | None = None,
    return_lse: bool = False,
    backend: str = "auto",
) -> Choice:
    """Say which backend `attend` would use for the same arguments, and why, without running it.

    Raises: what `attend` would raise for these arguments.
    """
    inputs, terms = prepare(q, k, v, mask, bias, scale, softcap, sinks, q_start, k_pos)
    return pick(inputs, terms, return_lse, backend)
