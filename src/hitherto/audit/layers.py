"""Each module that mixes positions, on its own: which keys does it really see?"""

import re
from typing import Any

import numpy as np

from hitherto.audit import replay
from hitherto.audit.case import Case
from hitherto.audit.guess import ATTENTION, CONVOLUTION, SCORES, of_blind, of_leak
from hitherto.audit.inside import layer_map, layer_slopes, mixers
from hitherto.audit.ledger import Failed
from hitherto.audit.locate import module_of
from hitherto.audit.plan import Plan
from hitherto.audit.report import Finding
from hitherto.audit.rounding import in_double, limit
from hitherto.audit.subject import Array

CHOOSES = re.compile(r"(^|[._])indexer?($|[._])", re.I)
"""A part that picks which keys are attended to: the mask is then only the most that is seen."""


def probe(case: Case, plan: Plan) -> None:
    """Measure every module that mixes positions, and compare it with the mask of its layer."""
    if not plan.wants("layer"):
        return
    if case.subject.module is None:
        case.ledger.miss("layer", "layers are measured inside torch modules only")
        return
    length, measured = plan.map_length, {}
    modules = mixers(case, plan.lengths[0])
    if not modules:
        case.ledger.miss("layer", "no module inside the model mixes positions by itself")
        return
    for path, module in modules.items():
        with case.ledger.probing(f"layer {path}"):
            measured[path] = layer_map(case, module, length)
    _compare(case, length, measured)


def attention_like(name: str, module: Any) -> bool:
    """Whether a module is an attention, by its name or by weights for queries and keys."""
    weights = (re.sub(r"\.weight$", "", n) for n, _ in module.named_parameters())
    return bool(ATTENTION.search(name)) or any(map(SCORES.search, weights))


def _sees_all(name: str, module: Any) -> bool:
    """Whether a module should see all that its mask shows: no convolution, no chooser of keys."""
    last = name.rsplit(".", 1)[-1]
    chooses = any(CHOOSES.search(child) for child, _ in module.named_modules())
    slides = CONVOLUTION.search(f"{last} {type(module).__name__}")
    return attention_like(last, module) and not (chooses or slides)


def _compare(case: Case, length: int, measured: dict[str, Array]) -> None:
    """Compare each map with its mask; of one mask for all, what some layer sees is seen."""
    masks = case.declared.layers(length)
    each = len(masks) > 1 and len(masks) == len(measured)
    small = limit(case.subject, np.zeros(1, np.float32)) if case.floor else 0.0
    seen = {path: sizes > small for path, sizes in measured.items()}
    for i, (path, grid) in enumerate(seen.items()):
        mask = masks[i] if each else np.logical_or.reduce(masks)
        case.ledger.note(f"layer {_named(case, path)}: {shape_of(grid)}")
        open_to = mask | np.eye(length, dtype=bool)  # an output always depends on its own query
        if (grid & ~open_to).any():
            _leak(case, length, path, measured[path] * grid, open_to)
        if each and (mask & ~grid).any() and _sees_all(path, _part(case, path)):
            _blind(case, length, path, grid, mask)
    if each or len(masks) > 1 or not seen:
        return
    lacking = [path for path, grid in seen.items() if (masks[0] & ~grid).any()]
    nowhere = (masks[0] & ~np.logical_or.reduce(list(seen.values()))).any()
    known = any(f.kind == "blind" and f.module is None for f in case.ledger.findings)
    if lacking and (nowhere or known):
        _blind(case, length, lacking[0], seen[lacking[0]], masks[0])


def _part(case: Case, path: str) -> Any:
    return module_of(case.subject, path)


def _named(case: Case, path: str) -> str:
    return f"{path} ({type(_part(case, path)).__name__})"


def _leak(case: Case, length: int, path: str, sizes: Array, mask: Array) -> None:
    if _rounds(case, path, length, sizes, mask):
        return
    name = _named(case, path)
    cause, detail = of_leak(sizes, mask, name, attention_like(name, _part(case, path)))
    query, key = (int(i) for i in np.argwhere((sizes > 0) & ~mask)[0])
    case.ledger.found(
        Finding(
            kind="leak", probe="layer", mode=case.mode, length=length, pair=(query, key),
            size=float(sizes[~mask].max()), module=name, cause=cause, detail=detail, seed=case.seed,
            reproducer=_replay(case, path, length, query, key, "must be 0: hidden"),
        )
    )  # fmt: skip


def _rounds(case: Case, path: str, length: int, sizes: Array, mask: Array) -> bool:
    """Whether what a layer shows beyond its mask is rounding, by float64."""
    if sizes[~mask].max() > limit(case.subject, np.zeros(1, np.float32)):
        return False
    double = in_double(case)
    if double is None:
        return False
    return bool(layer_map(double, _part(double, path), length)[~mask].max() <= double.floor)


def _blind(case: Case, length: int, path: str, seen: Array, mask: Array) -> None:
    missing = mask & ~seen & ~_faint(case, length, path)
    if not missing.any():
        return
    cause, detail = of_blind(missing, mask & ~missing, mask)
    query, key = (int(i) for i in np.argwhere(missing)[0])
    case.ledger.found(
        Finding(
            kind="blind", probe="layer", mode=case.mode, length=length, pair=(query, key),
            module=_named(case, path), cause=cause, detail=detail, seed=case.seed,
            reproducer=_replay(case, path, length, query, key, "should not be 0: visible"),
        )
    )  # fmt: skip


def _replay(case: Case, path: str, length: int, query: int, key: int, says: str) -> str:
    return replay.replay(
        case,
        f"sizes = module_map(subject, {path!r}, {length}, {replay.rows_of(case)})",
        f"print(sizes[{query}, {key}])  # how far its output {query} moves with its input {key}; "
        + says,
    )


def _faint(case: Case, length: int, path: str) -> Array:
    """Pairs that move something in float64, or have a gradient there, however small."""
    double = in_double(case)
    if double is None:
        return np.zeros((length, length), bool)
    seen = layer_map(double, _part(double, path), length) > 0
    try:
        return seen | (layer_slopes(double, _part(double, path), length) > 0)
    except Failed:
        return seen


def shape_of(seen: Array) -> str:
    """Say in words what a measured map looks like: its window, and whether it looks ahead."""
    length = len(seen)
    back = np.subtract.outer(np.arange(length), np.arange(length))
    if not seen.any():
        return "sees nothing"
    if seen.all():
        return "sees everything"
    width, ahead = int(back[seen].max()) + 1, max(int(-back[seen].min()), 0)
    if (seen == ((back < width) & (back >= -ahead))).all():
        window = "all earlier keys" if width == length else f"a window of {width} keys"
        return window if not ahead else f"{window} and {ahead} keys ahead"
    return f"{int(seen.sum())} of {seen.size} pairs, oldest {width - 1} back, {ahead} ahead"
