"""Masks as text: `str(mask)` is Python one can paste; `parse` reads it, without eval."""

import ast
import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields

import numpy as np

from hitherto.errors import MaskError, explain
from hitherto.mask import data, expression, positions
from hitherto.mask.expression import And, Mask, Minus, Not, Or, Xor

_SIGN = {And: "&", Or: "|", Xor: "^", Minus: "-"}
_OPERATOR = {ast.BitAnd: And, ast.BitOr: Or, ast.BitXor: Xor, ast.Sub: Minus}
_NODES = {
    cls.__name__: cls
    for module in (positions, data, expression)
    for cls in vars(module).values()
    if isinstance(cls, type)
    and issubclass(cls, Mask)
    and not cls.__name__.startswith("_")
    and cls not in (Mask, data.Predicate, Not, *_SIGN)
}
_METHODS = {"from_lengths": data.Segments.from_lengths, "padded": data.Segments.padded}


def spell(mask: Mask) -> str:
    """Return the mask as Python that `parse` reads back to an equal mask."""
    match mask:
        case expression._Pair(left=a, right=b):
            left = spell(a) if type(a) is type(mask) else _operand(a)
            return f"{left} {_SIGN[type(mask)]} {_operand(b)}"
        case Not(mask=a):
            return f"~{_operand(a)}"
        case data.Predicate(name=name):
            return f"Predicate({name})"
        case data.Segments(ids=ids, k_ids=None) if _end_to_end(ids):
            return f"Segments.from_lengths({np.bincount(ids).tolist()})"
    return f"{type(mask).__name__}({', '.join(_arguments(mask))})"


def _operand(mask: Mask) -> str:
    return f"({spell(mask)})" if type(mask) in _SIGN else spell(mask)


def _end_to_end(ids: np.ndarray) -> bool:
    if ids.ndim != 1 or ids[0] != 0:
        return False
    step = np.diff(ids)
    return bool(((step == 0) | (step == 1)).all())


def _arguments(mask: Mask) -> list[str]:
    spelled = []
    for field in fields(mask):  # type: ignore[arg-type]
        value = getattr(mask, field.name)
        if field.default is MISSING:
            spelled.append(_literal(value))
        elif value is not field.default and not (
            not isinstance(value, np.ndarray) and value == field.default
        ):
            spelled.append(f"{field.name}={_literal(value)}")
    return spelled


def _literal(value: object) -> str:
    match value:
        case Mask():
            return spell(value)
        case np.ndarray():
            return repr(value.tolist())
        case tuple() if value and isinstance(value[0], Mask):
            return "[" + ", ".join(spell(part) for part in value) + "]"
        case tuple():
            ranges = [f"range({start}, {stop})" for start, stop in value]
            return ranges[0] if len(ranges) == 1 else "[" + ", ".join(ranges) + "]"
        case np.generic():
            return repr(value.item())
    return repr(value)


def parse(text: str, predicates: Mapping[str, Mask] | None = None) -> Mask:
    """Read a mask from its text form, e.g. `"Causal() & (Window(4096) | Prefix(4))"`.

    Args:
        text: calls of mask names with literal arguments, joined by `& | ^ - ~`.
        predicates: masks that stand for `Predicate(name)`, by name.
    Raises:
        MaskError: anything else in the text. Nothing in the text is ever run.
    """
    if not isinstance(text, str):
        raise MaskError(explain("mask text", "must be a string", text, "pass str(mask)"))
    try:
        return _mask(ast.parse(text.strip(), mode="eval").body, predicates or {})
    except MaskError:
        raise
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        reason = getattr(error, "msg", None) or type(error).__name__
        raise MaskError(
            explain("mask text", f"must be an expression of masks ({reason})",
                    text or "an empty text", "write it like Causal() & Window(4096)")
        ) from None  # fmt: skip


def _mask(tree: ast.expr, predicates: Mapping[str, Mask]) -> Mask:
    match tree:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATOR:
            return _OPERATOR[type(op)](_mask(left, predicates), _mask(right, predicates))
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return Not(_mask(operand, predicates))
        case ast.Call(func=ast.Name(id="Predicate"), args=[ast.Name(id=name)], keywords=[]):
            if name in predicates:
                return predicates[name]
            raise MaskError(
                explain("mask text", "may name only predicates that parse is given", name,
                        f"call parse(text, predicates={{'{name}': ...}})")
            )  # fmt: skip
        case ast.Call(func=func, args=args, keywords=keywords):
            build = _callee(func)
            values = [_value(a, predicates) for a in args]
            named = {k.arg: _value(k.value, predicates) for k in keywords if k.arg}
            if len(named) < len(keywords):
                raise _unreadable(tree)
            try:
                inspect.signature(build).bind(*values, **named)
            except TypeError as error:
                takes = ", ".join(inspect.signature(build).parameters) or "nothing"
                raise MaskError(
                    explain(ast.unparse(func), f"takes {takes}", ast.unparse(tree),
                            f"mend the call: {error}")
                ) from None  # fmt: skip
            return build(*values, **named)
    raise _unreadable(tree)


def _callee(func: ast.expr) -> Callable[..., Mask]:
    match func:
        case ast.Name(id=name) if name in _NODES:
            return _NODES[name]
        case ast.Attribute(value=ast.Name(id="Segments"), attr=name) if name in _METHODS:
            return _METHODS[name]
        case ast.Name(id=name):
            near = difflib.get_close_matches(name.title(), _NODES, 1, 0.5)
            fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(_NODES)}"
            raise MaskError(explain("mask text", "must call masks by name", name, fix))
    raise _unreadable(func)


def _value(tree: ast.expr, predicates: Mapping[str, Mask]) -> object:
    match tree:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            return tree.value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, predicates) for item in items]
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
            bounds = [_value(a, predicates) for a in args]
            if all(type(b) is int for b in bounds) and 1 <= len(bounds) <= 3 and bounds[2:] != [0]:
                return range(*bounds)  # type: ignore[arg-type]
        case ast.Call() | ast.BinOp() | ast.UnaryOp():
            return _mask(tree, predicates)
    raise _unreadable(tree)


def _unreadable(tree: ast.AST) -> MaskError:
    return MaskError(
        explain(
            "mask text",
            "may hold masks, & | ^ - ~ and literal numbers, lists and ranges only",
            ast.unparse(tree),
            "build other masks in Python",
        )
    )
