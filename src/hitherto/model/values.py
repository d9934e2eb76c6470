"""Checking the values of a config, whether typed by hand or read from a file."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from hitherto.errors import ModelError, explain

Config = TypeVar("Config")


def from_dict(kind: type[Config], values: object) -> Config:
    """Build a config dataclass from plain values that cannot be trusted.

    Raises:
        ModelError: naming the first setting that is unknown, missing or of the wrong type.
    """
    if not isinstance(values, Mapping):
        raise ModelError(explain(kind.__name__, "must be a table of settings", values, "fix it"))
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise ModelError(
                explain(f"{kind.__name__}.{name}", "must be a known setting", name, "remove it")
            )
    for name, field in known.items():
        required = field.default is MISSING and field.default_factory is MISSING
        if required and name not in values:
            raise ModelError(explain(f"{kind.__name__}.{name}", "is needed", "nothing", "add it"))
    return kind(**{name: _read(known[name].type, value) for name, value in values.items()})


def require_types(config: Any) -> None:
    """Raise ModelError unless every field of the dataclass holds what its annotation says.

    Lists, as JSON gives them, become tuples.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        if not _matches(value, field.type):
            name = getattr(field.type, "__name__", None) or str(field.type)
            require(config, field.name, False, f"must be {name}")
        if isinstance(value, list):
            object.__setattr__(config, field.name, tuple(value))


def require_above(config: Any, limit: float, *names: str) -> None:
    """Raise ModelError unless each of these fields is None or > limit."""
    for name in names:
        value = getattr(config, name)
        require(config, name, value is None or value > limit, f"must be > {limit}")


def require(config: Any, name: str, holds: bool, rule: str) -> None:
    """Raise ModelError about one field unless the rule holds."""
    if not holds:
        raise ModelError(
            explain(
                f"{type(config).__name__}.{name}",
                rule,
                getattr(config, name),
                "change this setting",
            )
        )


def _read(kind: Any, value: object) -> object:
    """A table where a config belongs, as a config."""
    for inner in (kind, *get_args(kind)):
        if is_dataclass(inner) and isinstance(value, Mapping):
            return from_dict(inner, value)  # type: ignore[arg-type]
    return value


def _matches(value: object, kind: Any) -> bool:
    arguments = get_args(kind)
    match get_origin(kind):
        case origin if origin is Literal:
            return value in arguments
        case origin if origin is UnionType:
            return any(_matches(value, each) for each in arguments)
        case origin if origin is tuple:
            return isinstance(value, (list, tuple)) and all(
                _matches(item, arguments[0]) for item in value
            )
    if kind is NoneType:
        return value is None
    if kind in (int, float):
        allowed = int if kind is int else (int, float)
        return isinstance(value, allowed) and not isinstance(value, bool) and value == value
    return isinstance(value, kind)
