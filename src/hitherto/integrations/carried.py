"""A mask on its way through a model: a tensor to the model, an expression to `attend`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from hitherto.mask import Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A mask and where it is asked, as `attend` takes them."""

    mask: Mask
    """Who may attend to whom, by absolute positions."""

    q_start: int = 0
    """Position of the first query."""

    k_pos: np.ndarray | None = None
    """Positions of the keys; None for `0 ..`."""


class Carried(Tensor):
    """A mask to add to scores, (batch, 1, queries, keys), that has cells only once looked at.

    Models hand a mask from where it is made to where it is used, and some slice it, join it to
    another or add it themselves on the way. Handed on, it costs nothing. Anything else done with it
    computes the cells first, as eager attention has them, which every model understands: 0 where a
    query may attend, the dtype's smallest number elsewhere.
    """

    @staticmethod
    def __new__(
        cls, sight: Sight, cells: Callable[[], Tensor], shape: tuple[int, ...], **kind: Any
    ) -> "Carried":
        """Take the shape, dtype and device of a tensor, and no memory."""
        return Tensor._make_wrapper_subclass(cls, shape, **kind)

    def __init__(
        self, sight: Sight, cells: Callable[[], Tensor], shape: tuple[int, ...], **kind: Any
    ) -> None:
        self._sight, self._cells, self._dense = sight, cells, None

    @property
    def sight(self) -> Sight | None:
        """The mask that it stands for; None once its cells may be written to."""
        return self._sight

    def dense(self) -> Tensor:
        """Return the cells as an ordinary tensor, computed once."""
        if self._dense is None:
            self._dense = self._cells()
        return self._dense

    def _forget(self) -> None:
        self._sight = None

    def __repr__(self, **_: Any) -> str:
        """Spell the mask, not its cells."""
        mask = "cells" if self._sight is None else self._sight.mask
        return f"Carried({mask}, shape={tuple(self.shape)})"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on the cells."""
        given = args, kwargs or {}
        if any(result.alias_info is not None for result in func._schema.returns):
            # What comes back shares these cells; whoever writes to it will not tell us.
            tree_map_only(cls, cls._forget, given)
        args, kwargs = tree_map_only(cls, cls.dense, given)
        return func(*args, **kwargs)
