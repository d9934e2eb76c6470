"""One exhibit: a model, the mask it declares, and what an audit must say of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hitherto.mask import Causal, Mask


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """A model with one planted fault, or a clean twin."""

    name: str
    model: Callable[[], Any]
    """Builds the model; call `build` instead, which fixes the seed and the mode."""
    kind: str = "clean"
    """Kind of the finding that must appear; "clean": none may."""
    also: tuple[str, ...] = ()
    """Kinds that the same fault also shows, and that may stand in its place."""
    module: str | None = None
    """Path of the module at fault, or None where no single module is."""
    declared: Mask | tuple[Mask, ...] | dict = Causal()  # noqa: RUF009 (a frozen value)
    doors: tuple[str, ...] = ()
    """Ways in, beyond the plain forward, that the fault needs: train, padded, packed, packed_masked
    (beside a mask of ones), stages, resumed (steps behind a prompt with pads), loss, source, batch,
    bfloat16, compiled, exported, maps, scaled, layers (each attention on its own), again (a second
    call), truncated, gradient, suffix (many inputs at once)."""
    floats: bool = False
    """Whether the input is floats (batch, length, CHANNELS) instead of ids."""
    depth: int = 2
    """Layers between input and output, over which the declared mask composes."""
    lengths: tuple[int, ...] = (7, 36)
    """Lengths at which the fault shows; those chosen by the audit itself must show it too."""
    source: str = ""
    """Public report of this fault, where there is one."""

    def build(self) -> Any:
        """Build the model: seed fixed, in eval mode."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = self.model()
        return model.eval() if isinstance(model, torch.nn.Module) else model


def thread(path: str) -> str:
    """Spell the address of an issue or pull request."""
    return f"https://github.com/{path}"
