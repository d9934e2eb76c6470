"""JAX: packed documents and a window, without queries x keys: `python examples/jax_attend.py`.

The same mask goes to our blockwise `attend` and, as a dense array, to `jax.nn`; both are compiled
and differentiated, and must agree.
"""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from hitherto.integrations.jax import attend
from hitherto.lowering import lower
from hitherto.mask import Causal, Mask, Segments, Window, density

TOKENS, HEADS, KV_HEADS, HEAD_DIM = 2048, 4, 2, 32


def documents(tokens: int, count: int, seed: int = 0) -> Mask:
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, tokens), count - 1, False))
    return Causal() & Segments.from_lengths(np.diff([0, *cuts, tokens])) & Window(512)


def dense(q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> jax.Array:
    """Return what `jax.nn` gives for the mask in its own form, heads second as ours."""
    said = lower(mask, "jax_attention", TOKENS, TOKENS)
    moved = (x.swapaxes(1, 2) for x in (q, k, v))
    return jax.nn.dot_product_attention(*moved, **said).swapaxes(1, 2)


def timed(call: Callable, *inputs: jax.Array) -> tuple[list[jax.Array], float, float]:
    """Return gradients, seconds to compile, and seconds of a second run."""
    step = jax.jit(jax.grad(lambda *x: jnp.square(call(*x)).sum(), (0, 1, 2)))
    began = time.perf_counter()
    jax.block_until_ready(step(*inputs))
    compiled = time.perf_counter()
    found = jax.block_until_ready(step(*inputs))
    return found, compiled - began, time.perf_counter() - compiled


def main() -> float:
    mask = documents(TOKENS, 12)
    keys = jax.random.split(jax.random.key(0), 3)
    heads = (HEADS, KV_HEADS, KV_HEADS)
    inputs = [jax.random.normal(key, (1, n, TOKENS, HEAD_DIM))
              for key, n in zip(keys, heads, strict=True)]  # fmt: skip
    print(f"{TOKENS} tokens, 12 documents, window 512: {density(mask, TOKENS, TOKENS):.1%} visible")
    results = []
    for name, call in (("hitherto", attend), ("jax.nn dense", dense)):
        found, first, then = timed(lambda *x, call=call: call(*x, mask), *inputs)
        print(f"{name:>14}: first run {first:5.1f} s, then {then * 1000:6.0f} ms")
        results.append(found)
    error = max(float(abs(x - y).max()) for x, y in zip(*results, strict=True))
    print(f"gradients differ by at most {error:.1e}")
    return error


if __name__ == "__main__":
    main()
