"""Point at the part of a mask's text that is wrong."""

import ast

from hitherto.errors import MaskError
from hitherto.mask import Mask, parse


def read_mask(text: str) -> Mask:
    """Parse a mask; an error shows the text with the smallest wrong part underlined."""
    try:
        return parse(text)
    except MaskError as error:
        line = text.strip()
        if "\n" in line or not line:
            raise
        start, stop = _wrong_part(line)
        pointer = " " * start + "^" * max(1, stop - start)
        raise MaskError(f"{error}\n\n    {line}\n    {pointer}") from None


def _wrong_part(text: str) -> tuple[int, int]:
    """Return columns from and to of the innermost part that cannot be read by itself."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        at = max((error.offset or 1) - 1, 0)
        return min(at, len(text)), min(at, len(text)) + 1
    except (ValueError, RecursionError, MemoryError):
        return 0, len(text)
    return _innermost(tree, text)


def _innermost(tree: ast.expr, text: str) -> tuple[int, int]:
    for part in _parts(tree):
        if not _reads(ast.get_source_segment(text, part) or ""):
            return _innermost(part, text)
    if isinstance(tree, ast.Call) and not _reads(f"{ast.unparse(tree.func)}()", named=True):
        tree = tree.func
    # Columns of ast count bytes of UTF-8; a terminal counts characters.
    columns = text.encode()
    start, stop = tree.col_offset, tree.end_col_offset or 0
    return len(columns[:start].decode()), len(columns[:stop].decode())


def _parts(tree: ast.expr) -> list[ast.expr]:
    """Return the masks that a part is built from."""
    match tree:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return [operand]
        case ast.Call(args=args, keywords=keywords):
            inside = [*args, *(keyword.value for keyword in keywords)]
            lists = [item for part in inside if isinstance(part, ast.List) for item in part.elts]
            return [part for part in inside + lists if _is_mask(part)]
    return []


def _is_mask(tree: ast.expr) -> bool:
    match tree:
        case ast.Call(func=ast.Name(id="range")):
            return False
        case ast.Call() | ast.BinOp() | ast.UnaryOp(op=ast.Invert()):
            return True
    return False


def _reads(text: str, named: bool = False) -> bool:
    """Whether `parse` takes the text; with `named`, whether it at least knows the name called."""
    try:
        parse(text)
    except MaskError as error:
        return named and "must call masks by name" not in str(error)
    return True
