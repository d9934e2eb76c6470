"""How a checkpoint says its rotary positions, in each of the ways that configs have had."""

import math
from collections.abc import Mapping
from typing import Any

from hitherto.model.loading.settings import Settings


def read_rotary(settings: Settings, kind: str | None = None) -> dict[str, Any]:
    """Base, scale and factors of the rotary angles, as keywords of a `DecoderConfig`.

    Args:
        settings: `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before).
        kind: the layer type whose table is meant, where `rope_parameters` has one for each.
    """
    table = settings.take("rope_parameters", dict, None)
    if table is not None:
        settings.skip("rope_theta", "rope_scaling")
        table = table.get(kind, {}) if kind else table
    else:
        table = dict(settings.take("rope_scaling", dict, {}))
        table["rope_theta"] = settings.take("rope_theta", float, 10_000.0)
    if not isinstance(table, Mapping):
        settings.refuse("rope_parameters", "must be a table", table)
    return _read(Settings(_named(table), f"{settings.origin}, rotary positions"), settings)


def _named(table: Mapping[str, Any]) -> dict[str, Any]:
    """Spell the kind in one way."""
    table = dict(table)
    old = table.pop("type", None)
    table.setdefault("rope_type", old or "default")
    return table


def _read(table: Settings, settings: Settings) -> dict[str, Any]:
    base = table.take("rope_theta", float, 10_000.0)
    if not 0 < base < math.inf:
        table.refuse("rope_theta", "must be finite and > 0", base)
    table.expect("partial_rotary_factor", 1, 1.0)
    kind = table.choose("rope_type", {name: name for name in ("default", "linear", "llama3")})
    found: dict[str, Any] = {"rotary_bases": (base,)}
    if kind == "linear":
        found["rotary_scales"] = (table.take("factor", float),)
    if kind == "llama3":
        head_dim = settings.values.get("head_dim")
        head_dim = head_dim or settings.take("hidden_size", int) // settings.take(
            "num_attention_heads", int
        )
        if type(head_dim) is not int or not 0 < head_dim <= 1 << 16:
            settings.refuse("head_dim", "must be a size", head_dim)
        found["rotary_factors"] = llama3_factors(table, base, head_dim)
    table.finish()
    return found


def llama3_factors(table: Settings, base: float, head_dim: int) -> tuple[float, ...]:
    """How many times slower each pair turns, to reach further than its first training did.

    A pair whose period fits `high` times into the first context stays; one that fits less than
    `low` times is slowed by `factor`; between them it goes over smoothly.

    Source: https://github.com/meta-llama/llama-models/blob/main/models/llama3/model.py
    """
    factor, low, high = (
        table.take(name, float) for name in ("factor", "low_freq_factor", "high_freq_factor")
    )
    context = table.take("original_max_position_embeddings", int)
    if not (factor > 0 and 0 < low < high and base > 0):
        table.refuse("low_freq_factor", "must be > 0 and below high_freq_factor", low)
    found = []
    for pair in range(0, head_dim, 2):
        fits = context / (2 * math.pi * base ** (pair / head_dim))
        kept = min(max((fits - low) / (high - low), 0.0), 1.0)
        found.append(1 / ((1 - kept) / factor + kept))
    return tuple(found)
