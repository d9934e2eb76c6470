"""Position biases as FlexAttention's score_mod: a function of score, batch, head, row, column.

FlexAttention adds what a score_mod returns *before* it hides cells, as `attend` does. Rows and
columns are numbers, so a bias by distance must be told where the queries begin.
"""

from collections.abc import Callable
from typing import Any

ScoreMod = Callable[[Any, Any, Any, Any, Any], Any]


def alibi(slopes: Any, q_start: int = 0) -> ScoreMod:
    """Return the score_mod of ALiBi: `score - slopes[head] * |q - k|`.

    Args:
        slopes: tensor (heads,), as `Alibi.slopes`.
        q_start: position of the first query.
    """

    def score_mod(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score - slopes[h] * (q_idx + q_start - kv_idx).abs()

    return score_mod


def relative(table: Any, first: int, q_start: int = 0) -> ScoreMod:
    """Return the score_mod of a table by offset: `score + table[head, (k - q) - first]`.

    Args:
        table: tensor (heads or 1, offsets), as `Relative.table`; offsets beyond it take its ends.
        first: the offset `k - q` of column 0.
        q_start: position of the first query.
    """
    heads, most = table.shape[0], table.shape[1] - 1

    def score_mod(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        column = (kv_idx - (q_idx + q_start) - first).clamp(0, most)
        return score + table[h if heads > 1 else 0, column]

    return score_mod
