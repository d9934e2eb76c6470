"""Keras 3 (3.15): `attention_mask` of MultiHeadAttention and its relatives.

    True means             attend
    shape                  (batch, queries, keys), or (batch, heads, queries, keys)
    causal when q != k     top-left (`use_causal_mask`): row i sees keys `0 .. i`
    sliding_window=W       both sides: `|i - j| < W`
    empty row              by backend: JAX and TensorFlow give the mean of every value, hidden ones
                           too; torch gives zeros

`use_causal_mask=True` was once dropped when dropout or scores were asked for
(https://github.com/keras-team/keras/issues/23038), and cannot continue a cache. So everything goes
into `attention_mask`, which every path of the layer reads, and `use_causal_mask` stays False.

Source: https://keras.io/api/layers/attention_layers/multi_head_attention/
"""

from typing import Any

from hitherto.lowering.arrays import dense, four_axes
from hitherto.lowering.empty import Empty, refuse_empty_rows
from hitherto.lowering.grid import Grid


def keras(grid: Grid, *, empty: Empty = "refuse") -> dict[str, Any]:
    """Return keyword arguments of a call to `keras.layers.MultiHeadAttention`.

    `attention_mask` is numpy bools (batch or 1, queries, keys), with heads as second axis when the
    mask differs between heads; every backend of Keras takes it.

    Args:
        grid: the mask.
        empty: "refuse" a row that sees no key, or accept the "mean" of all values there.
    Raises:
        Unsupported: a row that sees no key.
    Cost: O(queries * keys).
    """
    refuse_empty_rows("keras", grid, empty)
    cells = four_axes(dense(grid))
    return {"attention_mask": cells if grid.heads > 1 else cells[:, 0], "use_causal_mask": False}
