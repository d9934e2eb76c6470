"""A tiny config of any transformers architecture, with every kind of layer that it has."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from hitherto.integrations.sizes import VOCAB, filled, small

_SPECIAL = re.compile(r".*(token|tok)_(id|ids|index|idx)")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
_MOST_KINDS = 6
_KEEP = {"id2label", "label2id", "dtype", "transformers_version", "architectures", "num_labels"}


def shrink(config_class: type, fixes: Mapping[str, Any] | None = None, full: Any = None) -> Any:
    """Return the smallest config of a class that keeps its structure.

    Every width, count and window becomes small (`hitherto.integrations.sizes`), sub-configs too;
    one layer of each kind stays; special tokens stay different from each other, inside the
    vocabulary. Only fields that the class declares are set, so what it derives from them is
    derived again. A class that refuses the result is tried again with less changed.

    Args:
        config_class: a transformers config class.
        fixes: fields that are set to these values, whatever the rules say.
        full: the config to shrink; the class's default one unless given.

    Raises:
        Exception: what the config class itself raises, when no try succeeds.
    """
    chosen = {} if full is None else full.to_diff_dict()
    full, ids = full or config_class(), _Ids()
    tries = [
        chosen | _merged(_overrides(full, ids, declared=declared, lists=lists), fixes or {})
        for declared, lists in ((True, True), (False, True), (True, False))
    ]
    for number, fields in enumerate(tries):
        try:
            return _again(config_class, fields, fixes or {})
        except Exception:
            if number == len(tries) - 1:
                raise
    raise AssertionError("unreachable")


def _merged(fields: dict, fixes: Mapping[str, Any]) -> dict:
    """Return the fields with the fixes on top, inside sub-configs as well."""
    inner = {k: {**fields[k], **v} for k, v in fixes.items()
             if isinstance(v, dict) and isinstance(fields.get(k), dict)}  # fmt: skip
    return {**fields, **fixes, **inner}


def _again(config_class: type, fields: dict, fixes: Mapping[str, Any]) -> Any:
    """Build; where large numbers were left, derived from constants, set them as well."""
    config = config_class(**fields)
    left = _overrides(config, _Ids(), declared=False, lists=False)
    full, now = _fields(config_class()), _fields(config)
    missing = {
        k: v for k, v in left.items()
        if k not in fixes and not isinstance(v, dict) and full.get(k) == now[k]
    }  # fmt: skip
    empty = {k: filled(k) for k, v in now.items() if v is None and k not in fixes}
    missing |= {k: v for k, v in empty.items() if v is not None and _needed(k, config)}
    try:
        return config_class(**{**fields, **missing}) if missing else config
    except Exception:
        return config


def _needed(name: str, config: Any) -> bool:
    """Whether a None means "not given"; elsewhere it may mean "do without"."""
    return "expert" not in name or bool(re.search("moe|dots1|deepseek", config.model_type))


class _Ids:
    """Special tokens above 99 become other ids from 100 on; equal ones stay equal."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self(v) for v in value]
        if not isinstance(value, int) or value < 100:
            return value
        if value not in self.seen:
            self.seen.append(value)
        return 100 + self.seen.index(value) % (VOCAB - 100)


def _overrides(config: Any, ids: _Ids, *, declared: bool, lists: bool = True) -> dict[str, Any]:
    """Return the fields of a smaller config, sub-configs as dicts.

    Args:
        config: the full one.
        ids: maps special tokens.
        declared: only fields whose default the class states as a number.
        lists: choose layers, and cut the lists that have an entry a layer.
    """
    values = _fields(config)
    name, kinds, by_layer = _layers(values) if lists else (None, [], {})
    out: dict[str, Any] = {k: [v[i] for i in kinds] for k, v in by_layer.items()}
    for key, value in values.items():
        if _is_config(value):
            out[key] = _as_given(value, _overrides(value, ids, declared=declared, lists=lists))
        elif _SPECIAL.fullmatch(key):
            out[key] = ids(value)
        elif isinstance(value, int | float) and (not declared or _stated(config, key)):
            smaller = small(key, value, values)
            if smaller != value:
                out[key] = smaller
        elif key in by_layer and key not in ("layer_types",):
            out[key] = [small(key, v, values) if isinstance(v, int) else v for v in out[key]]
        elif lists and _is_own(config, key) and _is_indices(key, value):
            out[key] = [i for i in value if i < (len(kinds) or 2)]
    if kinds and name:
        out[name] = len(kinds)
    shared = values.get("num_kv_shared_layers")
    if kinds and isinstance(shared, int) and shared:
        out |= {key: out[key] * 2 for key in by_layer}
        out |= {name: 2 * len(kinds), "num_kv_shared_layers": len(kinds)}
    return {k: v for k, v in out.items() if k not in _KEEP}


def _layers(values: Mapping[str, Any]) -> tuple[str | None, list[int], dict[str, Any]]:
    """Find the field that counts layers, one layer of each kind, and the lists with an entry each.

    Two layers are of one kind when every list says the same of both.
    """
    name = next((k for k in _LAYERS if isinstance(values.get(k), int)), None)
    count = values[name] if name else 0
    found = {k: v for k, v in values.items() if isinstance(v, list | tuple) and len(v) == count}
    if count < 3 or not found:
        return name, [], {}
    telling = [v for v in found.values() if len({str(x) for x in v}) <= max(4, count // 2)]
    first: dict[tuple, int] = {}
    for i in range(count):
        first.setdefault(tuple(str(v[i]) for v in telling), i)
    kinds = sorted(first.values())[:_MOST_KINDS]
    return name, kinds if len(kinds) > 1 else [0, 1], found


def _fields(config: Any) -> dict[str, Any]:
    hidden = {k: v for k, v in vars(config).items() if not k.startswith("_")}
    return {k: v for k, v in hidden.items() if k not in _KEEP}


def _is_config(value: Any) -> bool:
    return hasattr(value, "to_dict") and hasattr(value, "model_type")


def _as_given(config: Any, smaller: dict[str, Any]) -> Any:
    """Return a sub-config in the form that its parent takes: a dict, with its type."""
    return {**({"model_type": config.model_type} if config.model_type else {}), **smaller}


def _is_own(config: Any, key: str) -> bool:
    """Whether the class declares the field; others are derived from those."""
    declared = {f.name for f in dataclasses.fields(config)} if _is_strict(config) else {key}
    return key in declared


def _is_strict(config: Any) -> bool:
    return dataclasses.is_dataclass(config)


def _stated(config: Any, key: str) -> bool:
    """Whether the class itself states a default for the field, so that nothing derives it."""
    if not _is_strict(config):
        return True
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    return isinstance(defaults.get(key), int | float)


def _is_indices(key: str, value: Any) -> bool:
    """Whether a list names layers, e.g. `mlp_only_layers`."""
    return bool(re.fullmatch(r".*layers(_\w+)?|.*_ids|.*indexes", key)) and (
        isinstance(value, list | tuple) and all(type(x) is int for x in value)
    )
