"""A module inside the running model: which positions of its input move which of its output?"""

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from hitherto.audit.case import ROWS, Case
from hitherto.audit.hooks import change_rows, output_of
from hitherto.audit.ledger import Failed
from hitherto.audit.subject import Array, Subject

POINTWISE = {"Linear", "Embedding", "Dropout", "Identity", "LayerNorm", "RMSNorm", "GELU", "ReLU",
             "SiLU", "Sigmoid", "Tanh", "ModuleList", "ModuleDict"}  # fmt: skip
"""Classes of torch that never mix positions, or are never called."""


def mixers(case: Case, length: int) -> dict[str, Any]:
    """Return the innermost modules, by path, that mix positions.

    Such a module moves another position of its output than the one changed in its input.

    Cost: two partial forwards a module.
    """
    length, root, found = max(length, 5), case.subject.module, {}
    for path, module in root.named_modules() if root is not None else ():
        if not path or type(module).__name__ in POINTWISE:
            continue
        try:
            sizes = layer_map(case, module, length, np.arange(length)[-5:], 1)
        except Failed:
            continue
        if (sizes > 0)[~np.eye(length, dtype=bool)].any():
            found[path] = module
    return {p: m for p, m in found.items() if not any(o.startswith(f"{p}.") for o in found)}


def module_map(
    subject: Subject, path: str, length: int, *, seed: int = 0, rows: int = ROWS
) -> Array:
    """Return what one module of a model sees: sizes (queries, keys); 0 = not a bit.

    Args:
        subject: the model, as `adapt` gives it.
        path: the module's name in it.
        length: positions of the model's input.
        seed: of the inputs.
        rows: rows of a forward.

    Raises:
        Failed: when the module is not reached, or has no input or output with these positions.
    Cost: four forwards up to the module for every 16 positions.
    """
    assert subject.module is not None
    case = Case(subject=subject, seed=seed, rows=rows)
    return layer_map(case, subject.module.get_submodule(path), length)


def opened(case: Case) -> Case:
    """Return a case whose modules can be looked into.

    Inside a compiled model hooks do not run: of its copy, every module that mixes positions is
    compiled by itself instead, so that what lies between them shows.
    """
    whole = getattr(case.subject.module, "_orig_mod", None)
    if whole is None or case.subject.rebuild is None:
        return case
    import torch

    subject = case.subject.rebuild(copy.deepcopy(whole))
    inside = replace(case, subject=subject)
    for module in mixers(inside, case.subject.min_length).values():
        module.forward = torch.compile(module.forward)
    return inside


def layer_map(
    case: Case, module: Any, length: int, columns: Array | None = None, draws: int = 2
) -> Array:
    """Return sizes (queries, keys): how far each position of a module's input moves its output.

    Raises:
        Failed: when the module is not reached, or has no input or output with these positions.
    Cost: two forwards up to the module for every 16 positions.
    """
    base = np.repeat(case.base(length), case.rows, axis=0)
    before = _moved(case, module, base, None)
    unit = float(np.sqrt(np.mean(before[:1] ** 2))) or 1.0
    found = np.zeros((length, length))
    columns = np.arange(length) if columns is None else columns
    for draw in range(draws):
        for first in range(0, len(columns), case.rows):
            keys = columns[first : first + case.rows]
            after = _moved(case, module, base, change_rows(keys, case.seed + draw))
            apart = np.abs(before - after).max(-1) / unit
            sizes = np.where((before != after).any(-1), np.maximum(apart, 1e-300), 0.0)
            found[:, keys] = np.maximum(found[:, keys], sizes[: len(keys)].T)
    return found


def layer_slopes(case: Case, module: Any, length: int) -> Array:
    """Return norms of the gradients of a module's output by its input, (queries, keys).

    Raises:
        Failed: as `layer_map`, or when the model has no graph.
    Cost: one forward and backward up to the module for every 16 positions.
    """
    import torch

    graph, root = case.subject.graph, case.subject.module
    if graph is None or root is None:
        raise Failed("call fails", "gradients need the graph of a torch module")
    found = np.zeros((length, length))
    rng = torch.Generator().manual_seed(case.seed)
    for first in range(0, length, ROWS):
        queries = torch.arange(first, min(first + ROWS, length))
        leaves: list[Any] = []

        def leaf(x: Any, leaves: list = leaves) -> Any:
            leaves.append(x.detach().requires_grad_())
            return leaves[-1]

        x = torch.as_tensor(np.repeat(case.base(length), len(queries), axis=0))
        if x.is_floating_point():
            x = x.to(next(root.parameters()).dtype)
        with torch.enable_grad():
            out = output_of(case, module, lambda x=x: graph(x), (len(x), length), leaf)
            weights = torch.zeros_like(out)
            one = torch.randn(out.shape[2:], generator=rng, dtype=torch.float64)
            weights[torch.arange(len(queries)), queries] = one.to(out.dtype)
            slopes = torch.autograd.grad(out, leaves, weights)
        norms = torch.stack([slope.double().flatten(2).norm(dim=-1) for slope in slopes])
        found[first : first + len(queries)] = norms.sum(0).numpy()
    return found


def _moved(case: Case, module: Any, x: Array, change: Any) -> Array:
    import torch

    with torch.no_grad():
        out = output_of(case, module, lambda: case.subject.run(x), x.shape[:2], change)
    return out.detach().double().cpu().numpy()
