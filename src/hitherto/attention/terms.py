"""One call of `attend` in two parts: its tensors, and all the rest as a hashable value."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hitherto.attention.bias import Corner, Form
from hitherto.attention.grid import Grid
from hitherto.mask import Mask


class Inputs(NamedTuple):
    """The tensors of a call; gradients reach each of them."""

    q: Float[Tensor, "batch heads queries head_dim"]
    k: Float[Tensor, "batch kv_heads keys head_dim"]
    v: Float[Tensor, "batch kv_heads keys v_dim"]
    bias: Tensor | None
    sinks: Float[Tensor, " heads"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a call asks for, apart from its tensors."""

    mask: Mask
    """Who may attend to whom."""

    grid: Grid
    """The positions of queries and keys."""

    scale: float
    """Factor on `q @ k`."""

    softcap: float | None
    """Scores become `softcap * tanh(score / softcap)`; None leaves them."""

    form: Form | None
    """How `Inputs.bias` is read; None without one."""


def score_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which scores and softmax are computed."""
    return dtype if dtype == torch.float64 else torch.float32


def corner(grid: Grid, rows: Int[Tensor, " queries"], keys: Int[Tensor, " keys"]) -> Corner:
    """Look up the positions of a tile's rows and keys."""
    k_pos = keys if grid.kept is None else torch.from_numpy(grid.k_pos).to(keys.device)[keys]
    return Corner(rows=rows, keys=keys, q_pos=rows + grid.q_start, k_pos=k_pos)
