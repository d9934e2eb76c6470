"""What each library that is only emitted for says of its own arguments, in plain Python.

Written from the libraries' published documents, not from `hitherto.lowering`: loops over cells, no
numpy, nothing shared with the code under test. Every function returns rows of bools.
"""

import ast
from collections.abc import Sequence

Grid = list[list[bool]]


def nothing(queries: int, keys: int) -> Grid:
    return [[False] * keys for _ in range(queries)]


def flash_piece(queries: int, keys: int, causal: bool, window: tuple[int, int]) -> Grid:
    """flash-attn >= 2.1, README: "query at position i will only attend to keys between
    [i + seqlen_k - seqlen_q - window_size[0], i + seqlen_k - seqlen_q + window_size[1]] inclusive";
    -1 means infinite; causal is aligned to the bottom right corner."""
    left, right = window
    if causal:
        right = 0
    grid = nothing(queries, keys)
    for i in range(queries):
        for j in range(keys):
            middle = i + keys - queries
            far_back = left >= 0 and j < middle - left
            ahead = right >= 0 and j > middle + right
            grid[i][j] = not far_back and not ahead
    return grid


def packed(cu_q: Sequence[int], cu_k: Sequence[int], causal: bool, window: tuple[int, int]) -> Grid:
    """flash_attn_varlen_func and varlen_attn: sequence n is rows cu_q[n] .. cu_q[n + 1]."""
    grid = nothing(cu_q[-1], cu_k[-1])
    for n in range(len(cu_q) - 1):
        queries, keys = cu_q[n + 1] - cu_q[n], cu_k[n + 1] - cu_k[n]
        for i, row in enumerate(flash_piece(queries, keys, causal, window)):
            for j, seen in enumerate(row):
                grid[cu_q[n] + i][cu_k[n] + j] = seen
    return grid


def kvcache(
    queries: int, keys: int, seqlens: Sequence[int], leftpad: Sequence[int] | None, causal: bool,
    window: tuple[int, int],
) -> list[Grid]:  # fmt: skip
    """flash_attn_with_kvcache: batch row b attends to its slot from leftpad[b] to seqlens[b]."""
    grids = []
    for b, stop in enumerate(seqlens):
        start = leftpad[b] if leftpad is not None else 0
        grid = nothing(queries, keys)
        for i, row in enumerate(flash_piece(queries, stop - start, causal, window)):
            for j, seen in enumerate(row):
                grid[i][start + j] = seen
        grids.append(grid)
    return grids


def magi(
    queries: int, keys: int, q_ranges: Sequence, k_ranges: Sequence, kinds: Sequence[int]
) -> Grid:
    """MagiAttention's AttnMaskType: 0 full, 1 causal (lower right corner), 2 inv_causal (upper left
    corner), 3 bi_causal (both). A cell in two slices would be counted twice: an error."""
    grid = nothing(queries, keys)
    for (q0, q1), (k0, k1), kind in zip(q_ranges, k_ranges, kinds, strict=True):
        for q in range(q0, q1):
            for k in range(k0, k1):
                below = k - k1 <= q - q1
                after = k - k0 >= q - q0
                if (kind in (1, 3) and not below) or (kind in (2, 3) and not after):
                    continue
                assert not grid[q][k], "slices overlap"
                grid[q][k] = True
    return grid


def flashmask(queries: int, keys: int, rows: Sequence[Sequence[int]] | None, causal: bool) -> Grid:
    """FlashMask: per key column the start and end rows of what is masked (Paddle's docstring)."""
    grid = nothing(queries, keys)
    for j in range(keys):
        masked = set(range(j)) if causal else set()
        match (causal, *(rows[j] if rows is not None else ())):
            case (True, r1):
                masked |= set(range(r1, queries))
            case (True, r1, r2):
                masked |= set(range(r1, r2))
            case (False, r1, r2):
                masked |= set(range(r1, queries)) | set(range(r2))
            case (False, r1, r2, r3, r4):
                masked |= set(range(r1, r2)) | set(range(r3, r4))
        for i in range(queries):
            grid[i][j] = i not in masked
    return grid


def flashinfer_arguments(queries: int, keys: int, causal: bool, window_left: int) -> Grid:
    """flashinfer: causal is bottom-right; window_left is the inclusive left window, -1 is none."""
    grid = nothing(queries, keys)
    for i in range(queries):
        for j in range(keys):
            middle = keys - queries + i
            grid[i][j] = not (causal and j > middle) and not (
                window_left >= 0 and j < middle - window_left
            )
    return grid


def flashinfer_bits(packed_mask: Sequence[int], queries: int, keys: int, batch: int) -> list[Grid]:
    """packbits(mask.flatten(), bitorder="little") of each request, one after another."""
    grids, byte = [], 0
    for _ in range(batch):
        grid = nothing(queries, keys)
        for cell in range(queries * keys):
            value = packed_mask[byte + cell // 8]
            grid[cell // keys][cell % keys] = bool(value >> (cell % 8) & 1)
        byte += -(-queries * keys // 8)
        grids.append(grid)
    assert byte == len(packed_mask)
    return grids


def bsr(
    indptr: Sequence[int], indices: Sequence[int], shape: tuple[int, int], block: tuple[int, int],
    mask: Sequence | None,
) -> Grid:  # fmt: skip
    """scipy's bsr_matrix with R x C blocks, and flashinfer's mask inside each of them."""
    grid = nothing(*shape)
    for r in range(shape[0] // block[0]):
        for n in range(indptr[r], indptr[r + 1]):
            for i in range(block[0]):
                for j in range(block[1]):
                    seen = True if mask is None else bool(mask[n][i][j])
                    grid[r * block[0] + i][indices[n] * block[1] + j] = seen
    return grid


def transformer_engine_type(
    queries: int, keys: int, mask_type: str, window: tuple[int, int]
) -> Grid:
    """Transformer Engine: window (l, r) is [i + sk - sq - l, i + sk - sq + r]; (-1, -1) is none and
    (-1, 0) is causal itself, whose corner the type names."""
    grid = nothing(queries, keys)
    bottom_right = "bottom_right" in mask_type
    for i in range(queries):
        for j in range(keys):
            middle = i + keys - queries
            seen = True
            if "causal" in mask_type:
                seen = j <= (middle if bottom_right else i)
            if window != (-1, 0) or "causal" not in mask_type:
                seen = seen and (window[0] < 0 or j >= middle - window[0])
                seen = seen and (window[1] < 0 or j <= middle + window[1])
            grid[i][j] = seen
    return grid


def block_lists(
    queries: int, keys: int, block: tuple[int, int], lists: dict[str, Sequence], partial: Grid
) -> Grid:
    """FlashAttention-4's block sparsity: full blocks are visible, partial ones ask, others not."""
    grid = nothing(queries, keys)
    for kind in ("mask", "full"):
        for r, count in enumerate(lists[f"{kind}_block_cnt"]):
            for column in lists[f"{kind}_block_idx"][r][:count]:
                for i in range(r * block[0], min((r + 1) * block[0], queries)):
                    for j in range(column * block[1], min((column + 1) * block[1], keys)):
                        assert not grid[i][j], "a block is listed twice"
                        grid[i][j] = kind == "full" or partial[i][j]
    return grid


def cute_mask_mod(source: str, queries: int, keys: int, batch: int, head: int, aux: list) -> Grid:
    """Read the emitted CuTe function: assignments of table look-ups, then one expression."""
    function = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef))
    assert [a.arg for a in function.args.args] == [
        "batch", "head", "m_idx", "n_idx", "seqlen_info", "aux_tensors",
    ]  # fmt: skip
    grid = nothing(queries, keys)
    for i in range(queries):
        for j in range(keys):
            names = {"batch": [batch], "head": [head], "m_idx": [i], "n_idx": j, "aux_tensors": aux}
            for line in function.body:
                value = read(line.value, names)
                if isinstance(line, ast.Assign):
                    names[line.targets[0].id] = value
            grid[i][j] = bool(value)
    return grid


def read(node: ast.expr, names: dict) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Tuple(elts=elements):
            return tuple(read(e, names) for e in elements)
        case ast.Subscript(value=value, slice=at):
            found, at = read(value, names), read(at, names)
            for index in at if isinstance(at, tuple) else (at,):
                found = found[index]
            return found
        case ast.Call(func=ast.Attribute(attr="scalar_to_ssa"), args=[value, _]):
            return read(value, names)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return read(left, names) and read(right, names)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return read(left, names) or read(right, names)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = read(left, names), read(right, names)
            return a < b if isinstance(op, ast.Lt) else a >= b
    raise AssertionError(f"the reading does not know {ast.dump(node)}")
