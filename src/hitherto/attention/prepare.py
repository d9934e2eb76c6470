"""From what a caller passes to the two parts of a call: tensors and terms."""

from functools import lru_cache

import numpy as np
from torch import Tensor

from hitherto.attention import check
from hitherto.attention.bias import Bias, Form, split
from hitherto.attention.grid import Grid, ranges_of
from hitherto.attention.terms import Inputs, Terms
from hitherto.errors import MaskError, explain
from hitherto.mask import Mask

Kept = tuple[tuple[int, int], ...] | None
"""`Grid.kept`."""


def prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    bias: Bias | None,
    scale: float | None,
    softcap: float | None,
    sinks: Tensor | None,
    q_start: int | None,
    k_pos: Tensor | np.ndarray | None,
) -> tuple[Inputs, Terms]:
    """Check a call and part it into tensors and terms."""
    check.require_tensors(q, k, v)
    check.require_numbers(scale, softcap)
    check.require_mask(mask, *q.shape[:2])
    check.require_bias(bias, (*q.shape[:3], k.shape[2]))  # type: ignore[arg-type]
    check.require_sinks(sinks, q.shape[1])
    form, leaf = split(bias)
    kept, stop = _kept(k_pos, k.shape[2])
    start = _start(q.shape[2], k.shape[2], stop, q_start)
    scale = q.shape[3] ** -0.5 if scale is None else float(scale)
    return Inputs(q, k, v, leaf, sinks), _terms(
        mask, start, q.shape[2], k.shape[2], kept, scale, softcap, form
    )


@lru_cache(maxsize=64)
def _terms(
    mask: Mask,
    q_start: int,
    queries: int,
    keys: int,
    kept: Kept,
    scale: float,
    softcap: float | None,
    form: Form | None,
) -> Terms:
    """Put them together; a model asks for the same again in every layer."""
    return Terms(
        mask=mask,
        grid=Grid(q_start=q_start, q_len=queries, k_len=keys, kept=kept),
        scale=scale,
        softcap=None if softcap is None else float(softcap),
        form=form,
    )


def _kept(k_pos: Tensor | np.ndarray | None, keys: int) -> tuple[Kept, int]:
    """Return the ranges of the keys' positions, None for all, and the position after the last."""
    if k_pos is None:
        return None, keys
    positions = check.positions_of(k_pos, keys)
    kept, stop = ranges_of(positions), int(positions[-1]) + 1 if keys else 0
    return (None if kept == ((0, keys),) else kept), stop


def _start(queries: int, keys: int, stop: int, q_start: int | None) -> int:
    """Return the position of the first query."""
    if q_start is None:
        q_start = stop - queries if keys else 0
        if q_start < 0:
            raise MaskError(
                explain("q", f"must have at most {stop} queries unless q_start is given", queries,
                        "pass q_start, e.g. 0, where queries are not the last keys")
            )  # fmt: skip
    if not isinstance(q_start, int) or isinstance(q_start, bool) or q_start < 0:
        raise MaskError(
            explain("q_start", "must be an int >= 0", q_start, "pass the first query's position")
        )
    return q_start
