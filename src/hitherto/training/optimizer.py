"""AdamW, and its state as named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hitherto.training.config import TrainingConfig

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def adamw(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW that shrinks matrices only: weight decay has no business with norms and biases."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=config.lr, betas=(config.beta1, config.beta2), eps=1e-8, fused=True
    )


def update(model: nn.Module, optimizer: torch.optim.Optimizer, lr: float, clip: float) -> None:
    """Clip the gradient and take one step."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()


def state_tensors(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """The moments of every weight, by name; empty before the first update."""
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def expected_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Tensors without memory, of the shapes and dtypes that `state_tensors` gives."""
    scalar = torch.empty((), dtype=torch.float32, device="meta")
    return {
        f"{moment}.{name}": scalar if moment == "step" else parameter.to("meta")
        for name, parameter in model.named_parameters()
        for moment in MOMENTS
    }


def restore(model: nn.Module, optimizer: torch.optim.AdamW, tensors: Mapping[str, Tensor]) -> None:
    """Take up what `state_tensors` gave."""
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {m: tensors[f"{m}.{name}"] for m in MOMENTS}
