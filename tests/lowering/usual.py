"""Masks as people use them, on random grids: many targets can say these, few the random ones."""

import random

import numpy as np

from hitherto.mask import (
    Band,
    BlockCausal,
    Causal,
    Chunks,
    Everything,
    Keys,
    Mask,
    PerHead,
    Prefix,
    Segments,
    Shift,
    Window,
    evaluate,
)
from strategies import Case, grid, seeded_case


def usual_case(seed: int, batch: int = 1, heads: int = 1) -> Case:
    """Return the same case for the same seed, for ever."""
    rng = random.Random(seed)
    q_len, k_len, q_start = grid(rng.randint, (1, 2, 3, 5, 8, 13, 17, 31), rng.random() < 0.3)
    if rng.random() < 0.5:
        q_start = max(k_len - q_len, 0)
    stop = max(q_start + q_len, k_len)
    shapes = [_order(rng, stop) & _documents(rng, stop, batch) for _ in range(heads)]
    mask = PerHead(shapes) if heads > 1 else shapes[0]
    return Case(mask, q_len, k_len, q_start)


def _order(rng: random.Random, stop: int) -> Mask:
    width, other = rng.randint(1, stop + 1), rng.randint(0, stop)
    far = rng.randint(-2, 2)
    return rng.choice([
        Causal(), Causal(), Everything(), Window(width), Band(width, other), Band(None, other),
        Band(width, None), Shift(Causal(), k=far), Shift(Window(width), k=far),
        Causal() | Prefix(width), Causal() & (Window(width) | Prefix(other)), BlockCausal(width),
        Causal() & Chunks(width),
    ])  # fmt: skip


def _documents(rng: random.Random, stop: int, batch: int) -> Mask:
    kind = rng.randint(0, 4)
    if kind == 0:
        ids = np.sort([rng.randint(-1, 3) for _ in range(stop)])
        return Segments(ids)
    if kind == 1:
        return Segments(np.cumsum([rng.randint(0, 3) == 0 for _ in range(stop)]))
    if batch > 1 and kind == 2:
        lengths = [rng.randint(0, stop) for _ in range(batch)]
        return Segments.padded(lengths, side=rng.choice(["left", "right"]), width=stop)
    if batch > 1 and kind == 3:
        return Keys(np.array([[rng.random() < 0.8 for _ in range(stop)] for _ in range(batch)]))
    return Everything()


def cases(count: int, batch: int = 1, heads: int = 1) -> list[Case]:
    """Half usual masks and half random expressions."""
    rest = [seeded_case(seed, leaves=3, batch=batch, heads=heads) for seed in range(count // 2)]
    return [usual_case(seed, batch, heads) for seed in range(count - count // 2)] + rest


def cells(case: Case) -> np.ndarray:
    """Return the meaning of a case: bool (batch, heads, queries, keys)."""
    seen = evaluate(case.mask, case.q_pos, case.k_pos)
    return seen[(None,) * (4 - seen.ndim)]


def packed_cells(case: Case) -> np.ndarray:
    """Return the meaning of a case with its batch packed: bool (queries of all, keys of all)."""
    seen = cells(case)[:, 0]
    batch, queries, keys = seen.shape
    grid = np.zeros((batch * queries, batch * keys), bool)
    for b in range(batch):
        grid[b * queries : (b + 1) * queries, b * keys : (b + 1) * keys] = seen[b]
    return grid


def one_head(case: Case) -> bool:
    seen = cells(case)
    return bool((seen == seen[:, :1]).all())
