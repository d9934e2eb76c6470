"""JAX: a jnp bool array, and the arguments of `jax.nn.dot_product_attention` (jax 0.10.2).

    True means             attend
    local_window_size      (l, r) keeps l + 1 + r keys: row i sees `i - l .. i + r`, both included
    causal when q != k     top-left: row i sees keys `0 .. i`, wherever the queries really stand
    *_seq_lengths          int32 (batch,): what comes after is hidden
    empty row              the mean of every value, hidden ones too; zeros where the row lies beyond
                           `query_seq_lengths`

Rows are numbered from 0 there and from `q_start` here. So queries that continue a cache are
`local_window_size`, whose two numbers may then be negative or larger than the window, and
`is_causal` is used only where row i is position i. A hidden value that is NaN still reaches the
output there (0 * NaN); in `hitherto.integrations.jax.attend` it does not.

Source: https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from hitherto.lowering.arrays import dense, four_axes
from hitherto.lowering.empty import Empty, real_rows, refuse_empty_rows
from hitherto.lowering.grid import Grid
from hitherto.lowering.library import library
from hitherto.lowering.outer import band_of, outer, positions_before, row_bounds
from hitherto.mask import Band, Everything, Keys, Mask, Queries


def jax(grid: Grid) -> Any:
    """Return a jnp array of bools, shaped as `dense`'s. O(queries * keys)."""
    return library("jax.numpy", "jax").asarray(dense(grid))


def jax_attention(
    grid: Grid, *, batch: int | None = None, empty: Empty = "refuse"
) -> dict[str, Any]:
    """Return keyword arguments of `jax.nn.dot_product_attention`: the smallest that are exact.

    They are `is_causal`, `local_window_size`, `query_seq_lengths` and `key_value_seq_lengths` where
    these say the mask, and `mask`, bools (batch or 1, heads or 1, queries, keys), where not. Arrays
    are numpy. `jax.nn` takes tensors as (batch, positions, heads, width).

    Args:
        grid: the mask.
        batch: rows of the batch, which the lengths are for; the mask's unless given.
        empty: "refuse" a row that sees no key, or accept the "mean" of all values there.
    Raises:
        Unsupported: a row that sees no key before one that does.
    """
    rows = real_rows(grid)
    refuse_empty_rows("jax_attention", grid, empty, rows)
    said = _said(grid, rows)
    if said is None:
        said = {"mask": four_axes(dense(grid))}
    if rows.min() < grid.q_len:
        said["query_seq_lengths"] = rows
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        if name in said and batch is not None and grid.batch == 1:
            said[name] = np.repeat(said[name], batch)
    return said


def _said(grid: Grid, rows: np.ndarray) -> dict[str, Any] | None:
    """Return causal, window and key lengths that say the mask; None where they cannot."""
    filled = [outer(spans) for spans in grid.bound.spans]
    if grid.heads > 1 or not all(x == y for x, y in zip(filled, grid.bound.spans, strict=True)):
        return None
    bands = [band for spans in filled if (band := band_of(spans)) is not None]
    before, after = np.max(bands or [(0, 0)], axis=0).tolist()
    real = Queries(positions_before(rows + grid.q_start, grid.q_start + grid.q_len))
    ends = [int(row_bounds(spans)[1].max(initial=0)) for spans in filled]
    lengths = np.array(ends, np.int32)[grid.bound.index[:, 0]]
    for keys, said in (
        (Everything(), {}),
        (Keys(positions_before(lengths, grid.k_len)), {"key_value_seq_lengths": lengths}),
    ):
        for band, also in _bands(grid, before, after):
            if grid.first_difference(band & real & keys) is None:
                return said | also
    return None


def _bands(grid: Grid, before: int, after: int) -> Iterator[tuple[Mask, dict[str, Any]]]:
    """List what causal and window can mean, simplest first."""
    yield Everything(), {}
    yield Band(None, -grid.q_start), {"is_causal": True}
    left, right = before - grid.q_start, after + grid.q_start
    yield Band(None, after), {"local_window_size": (max(grid.q_len - 1, 0), right)}
    yield Band(before, None), {"local_window_size": (left, max(grid.k_len - 1, 0))}
    if before + after >= 0:
        yield Band(before, after), {"local_window_size": (left, right)}
