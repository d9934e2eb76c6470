"""`attend` for JAX arrays: the same meaning as `hitherto.attend`, in pure JAX over tiles."""

import math

from hitherto.attention import Alibi, Relative
from hitherto.attention.bias import split
from hitherto.errors import MaskError, Unsupported, explain
from hitherto.integrations.jax_tiles import tiles
from hitherto.mask import Mask, axes

try:
    import jax.numpy as jnp
    from jaxtyping import Array, Float

    from hitherto.integrations.jax_blockwise import INF, Shown, Tensors, Terms, compiled
except ImportError as error:
    raise ImportError("hitherto.integrations.jax needs JAX: pip install 'hitherto[jax]'") from error


def attend(
    q: Float[Array, "batch heads queries head_dim"],
    k: Float[Array, "batch kv_heads keys head_dim"],
    v: Float[Array, "batch kv_heads keys v_dim"],
    mask: Mask,
    *,
    bias: Alibi | Relative | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Array, " heads"] | None = None,
    q_start: int | None = None,
    return_lse: bool = False,
) -> (
    Float[Array, "batch heads queries v_dim"]
    | tuple[Float[Array, "batch heads queries v_dim"], Float[Array, "batch heads queries"]]
):
    """Let every query take the mean of the values it may see, weighted by softmax of its scores.

    Meaning: that of `hitherto.attend`, cell for cell: a row that sees no key gives zeros and lse
    -inf, and a hidden key or value reaches no output and no gradient, even if it is NaN or Inf.
    The mask and the lengths are static: `jax.jit` traces once for each. Works under `jit`, `vmap`
    and reverse-mode `grad` (once).

    Args:
        q: queries; `heads` is a multiple of `kv_heads`.
        k: keys, at positions `0 ..`.
        v: values; `v_dim` may differ from `head_dim`.
        mask: who may attend to whom; its batch and head axes broadcast.
        bias: `Alibi` or `Relative` with JAX arrays in them; gradients reach these.
        scale: factor on the scores; 1 / sqrt(head_dim) by default.
        softcap: scores become `softcap * tanh(score / softcap)` before bias and mask.
        sinks: one more logit a head in each row's denominator.
        q_start: position of the first query; by default queries are the last of the keys.
        return_lse: also return the log of each row's softmax denominator, sink included.
    Raises:
        ValueError: arrays that do not fit together.
        MaskError: a mask that does not fit the arrays or the positions.
        Unsupported: a dense bias, which is queries x keys. Fix: `hitherto.attend`, or `Relative`.
    Cost: time O(heads * visible tiles), memory O(queries + keys), forward and backward. The
        compiled program holds one bit for each cell of every distinct partial tile.
    """
    _require_arrays(q, k, v, mask)
    queries, keys = q.shape[2], k.shape[2]
    dtype = jnp.promote_types(q.dtype, jnp.float32)
    shown = tiles(mask, queries, keys, q_start)
    start = keys - queries if q_start is None else q_start
    _require_bias(bias, q.shape[1])
    form, leaf = split(bias)
    terms = Terms(
        rows=shown.rows, keys=shown.keys, by_batch=shown.by_batch, by_head=shown.by_head,
        scale=1 / math.sqrt(q.shape[3]) if scale is None else scale, softcap=softcap, form=form,
    )  # fmt: skip
    (q_, q_bad), (k_, k_bad), (v_, v_bad) = (_finite(x.astype(dtype)) for x in (q, k, v))
    out, lse, spoilt = compiled(
        terms,
        Shown(
            places=jnp.asarray(shown.places), patterns=jnp.asarray(shown.patterns),
            q_start=jnp.asarray(start, jnp.int32), spoilt=_padded(k_bad | v_bad, shown.keys),
        ),
        Tensors(
            q=_padded(q_, shown.rows), k=_padded(k_, shown.keys), v=_padded(v_, shown.keys),
            bias=None if leaf is None else jnp.asarray(leaf, dtype),
        ),
    )  # fmt: skip
    out, lse, spoilt = out[:, :, :queries], lse[:, :, :queries], spoilt[:, :, :queries]
    spoilt = spoilt | (q_bad & (lse > -INF))
    if sinks is not None:
        out, lse = _with_sinks(out, lse, jnp.asarray(sinks, dtype))
    out = jnp.where(spoilt[..., None], jnp.nan, out).astype(q.dtype)
    return (out, jnp.where(spoilt, jnp.nan, lse)) if return_lse else out


def _finite(x: Array) -> tuple[Array, Array]:
    """Put 0 for what is not finite; say which vectors held such a number."""
    good = jnp.isfinite(x)
    return jnp.where(good, x, 0), ~good.all(-1)


def _padded(x: Array, block: int) -> Array:
    """Fill the third axis up to whole blocks, at least one."""
    missing = max(-(-x.shape[2] // block), 1) * block - x.shape[2]
    return jnp.pad(x, [(0, 0), (0, 0), (0, missing)] + [(0, 0)] * (x.ndim - 3))


def _with_sinks(out: Array, lse: Array, sinks: Array) -> tuple[Array, Array]:
    """Let sinks join the denominator of rows that see any key."""
    empty = lse == -INF
    known = jnp.where(empty, 0, lse)
    joined = jnp.logaddexp(known, sinks[:, None])
    return out * jnp.exp(known - joined)[..., None], jnp.where(empty, -INF, joined)


def _require_bias(bias: Alibi | Relative | None, heads: int) -> None:
    match bias:
        case None:
            return
        case Alibi(slopes=leaf) | Relative(table=leaf):
            if leaf.shape[0] != heads and (leaf.ndim, leaf.shape[0]) != (2, 1):
                _fail("bias", f"must have a row for each of {heads} heads", str(leaf.shape),
                      "match q's heads")  # fmt: skip
        case _:
            raise Unsupported(
                explain("bias", "must be Alibi or Relative in JAX", type(bias).__name__,
                        "a dense bias is queries x keys: use hitherto.attend, or Relative")
            )  # fmt: skip


def _require_arrays(q: Array, k: Array, v: Array, mask: Mask) -> None:
    """Raise unless arrays and mask fit together."""
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if not q.ndim == k.ndim == v.ndim == 4 or not jnp.issubdtype(q.dtype, jnp.floating):
        _fail("q, k, v", "must be floats (batch, heads, positions, width)", shapes, "add axes")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        _fail("q, k, v", "must share batch, and k its width with q, its keys with v", shapes,
              "project q and k to one head_dim")  # fmt: skip
    if 0 in (*q.shape, *k.shape[:2]) or q.shape[1] % k.shape[1]:
        _fail("q", "must have queries, and a multiple of k's kv_heads as heads", shapes,
              "each kv head serves heads / kv_heads query heads")  # fmt: skip
    if not isinstance(mask, Mask):
        raise MaskError(explain("mask", "must be a mask", type(mask).__name__, "write Causal()"))
    for name, have, want in zip(("batch", "heads"), axes(mask), q.shape[:2], strict=True):
        if have not in (None, 1, want):
            raise MaskError(
                explain("mask", f"must have q's {name} ({want}) or 1", str(have),
                        f"give one mask a {name.removesuffix('s')}, or one for all")
            )  # fmt: skip


def _fail(argument: str, rule: str, came: str, fix: str) -> None:
    raise ValueError(explain(argument, rule, came, fix))
