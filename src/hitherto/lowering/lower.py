"""One mask to any target: the table of targets, and the two questions asked of it."""

from dataclasses import replace
from importlib import import_module
from typing import Any

from hitherto.errors import MaskError, Unsupported, explain
from hitherto.lowering.grid import Exact, Grid
from hitherto.mask import Mask

TARGETS: dict[str, tuple[str, str]] = {
    "dense": ("arrays", "dense"),
    "additive": ("arrays", "additive"),
    "bits": ("arrays", "bits"),
    "int8": ("arrays", "int8"),
    "csr": ("sparse", "csr"),
    "coo": ("sparse", "coo"),
    "sdpa": ("sdpa", "sdpa"),
    "mha": ("sdpa", "mha"),
    "attention_bias": ("sdpa", "attention_bias"),
    "varlen": ("flash", "varlen"),
    "flex": ("flex", "flex"),
    "flash": ("flash", "flash"),
    "flash4": ("flash4", "flash4"),
    "xformers": ("xformers", "xformers"),
    "flashmask": ("flashmask", "flashmask"),
    "magi": ("magi", "magi"),
    "flashinfer": ("flashinfer", "flashinfer"),
    "transformer_engine": ("transformer_engine", "transformer_engine"),
    "transformers": ("transformers", "transformers"),
    "jax": ("jax", "jax"),
    "jax_attention": ("jax", "jax_attention"),
    "splash": ("splash", "splash"),
    "tokamax": ("tokamax", "tokamax"),
    "keras": ("keras", "keras"),
    "onnx": ("onnx", "onnx"),
}
"""Target: (module of this package, function). Every function takes `(grid, **options)`, checks
first and imports the target's library after, so that a refusal needs no library."""

ANY_MASK = frozenset("dense additive bits int8 csr coo sdpa flex transformers jax onnx".split())
"""Targets that can say every mask; `targets` lists these without building them."""


def lower(
    mask: Mask, to: str, q_len: int, k_len: int, q_start: int | None = None, **options: Any
) -> Any:
    """Return a mask in another library's own form: exactly, or not at all.

    Args:
        mask: any mask.
        to: a name of `TARGETS`; the file of that target opens with the library's convention.
        q_len: number of queries.
        k_len: number of keys.
        q_start: position of the first query; unless given, queries are the last of the keys.
        options: of the target, e.g. `dtype`, `library`, `block`.
    Raises:
        Unsupported: the target cannot say this mask on this grid, and the message names the first
            cell; or there is no such target.
        MaskError: the mask has no meaning on this grid.
    """
    if to not in TARGETS:
        raise Unsupported(
            explain("to", f"must be one of {', '.join(TARGETS)}", to, "choose a target's name")
        )
    module, function = TARGETS[to]
    build = getattr(import_module(f"hitherto.lowering.{module}"), function)
    return build(Grid.of(mask, q_len, k_len, q_start), **options)


def targets(mask: Mask, q_len: int, k_len: int, q_start: int | None = None) -> tuple[str, ...]:
    """List the targets that can say exactly this mask on this grid, installed here or not."""
    grid = replace(Grid.of(mask, q_len, k_len, q_start), asking=True)
    return tuple(name for name in TARGETS if name in ANY_MASK or _exact(name, grid))


def _exact(name: str, grid: Grid) -> bool:
    module, function = TARGETS[name]
    try:
        getattr(import_module(f"hitherto.lowering.{module}"), function)(grid)
    except Exact:
        return True
    except (Unsupported, MaskError):
        return False
    except ImportError as error:
        return not (error.name or "").startswith("hitherto")
    return True
