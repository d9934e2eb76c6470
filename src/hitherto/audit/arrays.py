"""Tokens in, logits out, whatever library they come from, compared as numpy arrays."""

from typing import Any

import numpy as np

from hitherto.errors import ModelError, explain


def values(output: Any) -> np.ndarray:
    """Return an output as a numpy array without losing a bit that matters.

    float16 and bfloat16 become float32, which holds all their values. An output on another device
    is copied.
    """
    if hasattr(output, "detach"):
        output = output.detach().cpu()
        output = output.double() if output.element_size() == 8 else output.float()
        output = output.numpy()
    array = np.asarray(output)
    return array if array.dtype.itemsize >= 4 else array.astype(np.float32)


def grid(tokens: Any) -> np.ndarray:
    """Return the tokens as int64 (batch, positions), or say what is wrong with them."""
    array = np.asarray(tokens.detach().cpu() if hasattr(tokens, "detach") else tokens)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iu":
        raise ModelError(
            explain("tokens", "must be ints of shape (batch, positions), 2 positions or more",
                    f"{array.dtype} of shape {array.shape}", "add a batch axis: tokens[None]")
        )  # fmt: skip
    return array.astype(np.int64)


def like(tokens: Any, ints: np.ndarray) -> Any:
    """Return these ints as the kind of thing `tokens` is: numpy array or tensor, same device."""
    if hasattr(tokens, "new_tensor"):
        return tokens.new_tensor(ints)
    return ints.astype(np.asarray(tokens).dtype)


def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Absolute difference by element: 0 where equal or both NaN, infinite where one is NaN."""
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))
