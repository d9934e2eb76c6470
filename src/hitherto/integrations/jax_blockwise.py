"""Attention over a static list of tiles, in JAX: one compiled loop forward, one backward.

No queries x keys array exists at any time, and the compiled program does not grow with the mask.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt8

from hitherto.attention.bias import Form

INF = float("inf")

multiply = partial(jnp.einsum, precision="highest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a call asks for, apart from its arrays: what a compiled program is made for."""

    rows: int
    """Queries of a tile."""

    keys: int
    """Keys of a tile."""

    by_batch: bool
    """The mask differs between batch rows: a tile is of one."""

    by_head: bool
    """The mask differs between heads: a tile is of one."""

    scale: float
    """Factor on `q @ k`."""

    softcap: float | None
    """Scores become `softcap * tanh(score / softcap)`; None leaves them."""

    form: Form | None
    """How `Tensors.bias` is read; None without one."""


class Shown(NamedTuple):
    """What the mask shows; see `Tiles`. One program serves all masks of equal shapes here."""

    places: Int[Array, "tiles 5"]
    patterns: UInt8[Array, "patterns rows key_bytes"]
    q_start: Int[Array, ""]
    spoilt: Bool[Array, "batch kv_heads keys"]
    """Which keys hold, or whose values hold, a number that is not finite."""


class Tensors(NamedTuple):
    """Finite numbers, padded to whole tiles. Gradients reach each of them."""

    q: Float[Array, "batch heads queries head_dim"]
    k: Float[Array, "batch kv_heads keys head_dim"]
    v: Float[Array, "batch kv_heads keys v_dim"]
    bias: Float[Array, "heads ..."] | None


class _Rows(NamedTuple):
    """What is known of the rows so far: an online softmax."""

    out: Float[Array, "batch heads queries v_dim"]
    top: Float[Array, "batch heads queries"]
    total: Float[Array, "batch heads queries"]
    spoilt: Bool[Array, "batch heads queries"]


class _Tile:
    """One tile: cuts its part from whole arrays, and puts it back."""

    def __init__(self, terms: Terms, shown: Shown, tensors: Tensors, place: Int[Array, "5"]):
        batch, heads = tensors.q.shape[:2]
        kv_heads = tensors.k.shape[1]
        self.terms, self.shown = terms, shown
        self.batch = 1 if terms.by_batch else batch
        self.heads, self.kv_heads = (1, 1) if terms.by_head else (heads, kv_heads)
        self.b, self.h, self.i, self.j, self.pattern = place
        self.kv = self.h // (heads // kv_heads)

    def rows(self, x: Array) -> Array:
        """Cut the query rows of (batch, heads, queries, ..)."""
        return lax.dynamic_slice(
            x, self._rows(x), (self.batch, self.heads, self.terms.rows, *x.shape[3:])
        )

    def keys(self, x: Array) -> Array:
        """Cut the keys of (batch, kv_heads, keys, ..)."""
        return lax.dynamic_slice(
            x, self._keys(x), (self.batch, self.kv_heads, self.terms.keys, *x.shape[3:])
        )

    def put_rows(self, into: Array, part: Array) -> Array:
        """Write query rows back."""
        return lax.dynamic_update_slice(into, part, self._rows(into))

    def add_keys(self, into: Array, part: Array) -> Array:
        """Add to keys."""
        return lax.dynamic_update_slice(into, self.keys(into) + part, self._keys(into))

    def _rows(self, x: Array) -> tuple:
        return self.b, self.h, self.i * self.terms.rows, *(jnp.int32(0),) * (x.ndim - 3)

    def _keys(self, x: Array) -> tuple:
        return self.b, self.kv, self.j * self.terms.keys, *(jnp.int32(0),) * (x.ndim - 3)

    def split(self, x: Array) -> Array:
        """Group the heads that share keys: (batch, kv_heads, group, ..)."""
        return x.reshape(self.batch, self.kv_heads, -1, *x.shape[2:])

    def joined(self, x: Array) -> Array:
        """Undo `split`."""
        return x.reshape(self.batch, self.heads, *x.shape[3:])

    @property
    def seen(self) -> Bool[Array, "rows keys"]:
        """The visible cells."""
        packed = self.shown.patterns[self.pattern]
        return jnp.unpackbits(packed, axis=-1, bitorder="little").astype(bool)

    @property
    def offset(self) -> Int[Array, "rows keys"]:
        """`k - q` of every cell."""
        q = self.shown.q_start + self.i * self.terms.rows + jnp.arange(self.terms.rows)
        return self.j * self.terms.keys + jnp.arange(self.terms.keys) - q[:, None]

    def scores(
        self, q: Array, k: Array, bias: Array | None
    ) -> Float[Array, "batch heads rows keys"]:
        """Return the scores of every cell, hidden ones too; differentiable."""
        scores = self.joined(multiply("bgrqd,bgkd->bgrqk", self.split(q), k)) * self.terms.scale
        if self.terms.softcap is not None:
            scores = self.terms.softcap * jnp.tanh(scores / self.terms.softcap)
        if bias is None or self.terms.form is None:
            return scores
        return scores + self.bias(self.terms.form, bias)

    def bias(self, form: Form, leaf: Array) -> Float[Array, "heads rows keys"]:
        """Return what is added to the scores, differentiable in the bias's numbers."""
        if self.terms.by_head and leaf.shape[0] > 1:
            leaf = lax.dynamic_slice_in_dim(leaf, self.h, 1)
        if form.kind == "alibi":
            return -leaf[:, None, None] * abs(self.offset)
        return leaf[:, jnp.clip(self.offset - form.first, 0, leaf.shape[1] - 1)]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def blockwise(
    terms: Terms, shown: Shown, tensors: Tensors
) -> tuple[
    Float[Array, "batch heads queries v_dim"],
    Float[Array, "batch heads queries"],
    Bool[Array, "batch heads queries"],
]:
    """Return out, lse, and which rows see a key that is spoilt.

    Cost: time O(heads * visible tiles), memory linear in queries and keys, forward and backward.
    """
    shape, dtype = tensors.q.shape[:3], tensors.q.dtype
    state = _Rows(
        out=jnp.zeros((*shape, tensors.v.shape[3]), dtype),
        top=jnp.full(shape, -INF, dtype),
        total=jnp.zeros(shape, dtype),
        spoilt=jnp.zeros(shape, bool),
    )

    def visit(state: _Rows, place: Array) -> tuple[_Rows, None]:
        tile = _Tile(terms, shown, tensors, place)
        new = _seen(tile, tensors, _Rows(*(tile.rows(x) for x in state)))
        return _Rows(*(tile.put_rows(x, y) for x, y in zip(state, new, strict=True))), None

    state, _ = lax.scan(visit, state, shown.places)
    empty = state.total == 0
    total = jnp.where(empty, 1, state.total)
    lse = jnp.where(empty, -INF, state.top + jnp.log(total))
    return state.out / total[..., None], lse, state.spoilt


def _seen(tile: _Tile, tensors: Tensors, old: _Rows) -> _Rows:
    """Let a tile's rows see its keys."""
    seen, (q, k, v) = tile.seen, (tile.rows(tensors.q), tile.keys(tensors.k), tile.keys(tensors.v))
    scores = jnp.where(seen, tile.scores(q, k, tensors.bias), -INF)
    top = jnp.maximum(old.top, scores.max(-1))
    base = jnp.where(top == -INF, 0, top)
    weights, kept = jnp.exp(scores - base[..., None]), jnp.exp(old.top - base)
    part = tile.joined(multiply("bgrqk,bgkd->bgrqd", tile.split(weights), v))
    bad = (seen & tile.keys(tile.shown.spoilt)[:, :, None, None]).any(-1)
    bad = jnp.broadcast_to(bad, tile.split(old.spoilt).shape)
    return _Rows(
        out=old.out * kept[..., None] + part,
        top=top,
        total=old.total * kept + weights.sum(-1),
        spoilt=old.spoilt | tile.joined(bad),
    )


def _forward(terms: Terms, shown: Shown, tensors: Tensors) -> tuple[tuple, tuple]:
    out, lse, spoilt = blockwise(terms, shown, tensors)  # type: ignore[misc]
    return (out, lse, spoilt), (shown, tensors, out, lse)


def _backward(terms: Terms, kept: tuple, grads: tuple) -> tuple[None, Tensors]:
    """Recompute each tile's weights from lse, and add up what it passes back."""
    shown, tensors, out, lse = kept
    grad, grad_lse, _ = grads
    lse, pull = jnp.where(lse == -INF, 0, lse), grad_lse - (grad * out).sum(-1)

    def visit(totals: Tensors, place: Array) -> tuple[Tensors, None]:
        tile = _Tile(terms, shown, tensors, place)
        q, k, v = tile.rows(tensors.q), tile.keys(tensors.k), tile.keys(tensors.v)
        scores, back = jax.vjp(tile.scores, q, k, tensors.bias)
        weights = jnp.where(tile.seen, jnp.exp(scores - tile.rows(lse)[..., None]), 0)
        grouped = tile.split(tile.rows(grad))
        dweights = tile.joined(multiply("bgrqd,bgkd->bgrqk", grouped, v))
        dq, dk, dbias = back(weights * (dweights + tile.rows(pull)[..., None]))
        dv = multiply("bgrqk,bgrqd->bgkd", tile.split(weights), grouped)
        return Tensors(
            q=tile.put_rows(totals.q, tile.rows(totals.q) + dq),
            k=tile.add_keys(totals.k, dk),
            v=tile.add_keys(totals.v, dv),
            bias=None if totals.bias is None else totals.bias + dbias,
        ), None

    zeros = jax.tree.map(jnp.zeros_like, tensors)
    totals, _ = lax.scan(visit, zeros, shown.places)
    return None, totals


blockwise.defvjp(_forward, _backward)

compiled = jax.jit(blockwise, static_argnums=0)
"""`blockwise`, traced once for all calls of equal shapes."""
