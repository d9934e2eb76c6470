"""Every library's conventions as data, and the table of docs/conventions*.md made from them.

`python tests/lowering/conventions.py` writes the tables into the two pages. What stands here is
checked cell by cell in test_conventions.py: by running the library, or by its plain reading.
"""

from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {"en": DOCS / "conventions.md", "zh": DOCS / "conventions.zh-CN.md"}
MARKS = "<!-- table: made by tests/lowering/conventions.py -->\n", "<!-- end of table -->\n"


class Row(NamedTuple):
    """One library."""

    name: str
    polarity: str
    window: str
    argument: str
    corner: str
    empty: str
    how: str


ROWS = [
    Row("hitherto", "attend", "w", "Window(w)", "position", "zeros", "ran"),
    Row("torch scaled_dot_product_attention", "attend", "-", "", "top-left", "zeros", "ran"),
    Row("torch nn.MultiheadAttention, nn.Transformer", "hide", "-", "", "mask",
        "zeros, or NaN with weights", "ran"),
    Row("torch nn.attention.bias", "-", "-", "", "name", "zeros or NaN", "ran"),
    Row("torch FlexAttention", "attend", "-", "", "numbers", "zeros", "ran"),
    Row("torch varlen_attn", "-", "w + 1", "window_size=(w, 0)", "bottom-right", "zeros", "read"),
    Row("attention-gym", "attend", "w + 1", "generate_sliding_window(w)", "numbers", "zeros",
        "ran"),
    Row("transformers, sdpa", "attend", "w", "sliding_window=w", "position", "zeros", "ran"),
    Row("transformers, eager", "add", "w", "sliding_window=w", "position", "mean", "ran"),
    Row("flash-attn 2.1 and later, 3", "-", "w + 1", "window_size=(w, 0)", "bottom-right", "zeros",
        "read"),
    Row("FlashAttention-4", "attend", "l + 1 + r", "window_size_left=l, window_size_right=r",
        "bottom-right", "zeros", "read"),
    Row("xFormers 0.0.35", "add", "w", "make_local_attention(w)", "name", "NaN", "ran"),
    Row("xFormers 0.0.35, LocalAttention...", "add", "l + 1 + r", "window_left=l, window_right=r",
        "bottom-right", "NaN", "ran"),
    Row("FlashMask", "rows hidden", "w + 1", "window_size=w", "?", "zeros", "read"),
    Row("MagiAttention", "-", "-", "", "slice", "?", "read"),
    Row("flashinfer", "attend", "w + 1", "window_left=w", "bottom-right", "?", "read"),
    Row("Transformer Engine", "hide", "l + 1 + r", "window_size=(l, r)", "type", "mean", "read"),
    Row("jax.nn.dot_product_attention", "attend", "l + 1 + r", "local_window_size=(l, r)",
        "top-left", "mean", "ran"),
    Row("JAX splash attention", "attend", "l + 1 + r", "LocalMask(window_size=(l, r))", "offset",
        "?", "ran"),
    Row("ONNX Attention", "attend", "l + 1 + r", "left_window_size=l, right_window_size=r", "past",
        "zeros", "ran"),
]  # fmt: skip

HEADS = {
    "en": ("library", "True means", "a window keeps", "causal when q ≠ k", "a row that sees no key",
           "checked"),
    "zh": ("库", "True 的含义", "窗口保留的键数（含自身）", "q ≠ k 时因果掩码如何对齐",
           "没有可见键的行", "如何核对"),
}  # fmt: skip

WORDS = {
    "attend": ("may attend", "可以关注"),
    "hide": ("**hidden**", "**被遮挡**"),
    "add": ("added to the scores", "加到分数上"),
    "rows hidden": ("numbers name **hidden** rows", "数字指明**被遮挡**的行"),
    "position": ("by position", "按绝对位置"),
    "numbers": ("by row and column number", "按行号和列号"),
    "top-left": ("top-left", "左上角"),
    "bottom-right": ("bottom-right", "右下角"),
    "mask": ("as the mask says", "由所给掩码决定"),
    "name": ("its name says", "由名称决定"),
    "slice": ("the slice's type says", "由切片类型决定"),
    "type": ("the mask type says", "由掩码类型决定"),
    "offset": ("by its `offset`", "由 `offset` 决定"),
    "past": ("after the past keys", "接在缓存的键之后"),
    "zeros": ("zeros", "零"),
    "NaN": ("NaN", "NaN"),
    "zeros or NaN": ("zeros or NaN, by kernel", "零或 NaN，取决于内核"),
    "zeros, or NaN with weights": (
        "zeros; NaN with `need_weights`",
        "零；若 `need_weights` 则为 NaN",
    ),
    "mean": ("the mean of every value, hidden ones too", "所有值的平均，包括被遮挡的"),
    "?": ("not documented", "文档未说明"),
    "-": ("-", "-"),
    "ran": ("ran", "运行核对"),
    "read": ("read", "按文档核对"),
}


def table(language: str) -> str:
    """Write the table in "en" or "zh"."""
    words = {code: pair[language == "zh"] for code, pair in WORDS.items()}
    lines = [" | ".join(HEADS[language]), " | ".join(["---"] * 6)]
    for row in ROWS:
        window = "-" if row.window == "-" else f"`{row.argument}`: {row.window}"
        lines.append(" | ".join([row.name, words[row.polarity], window, words[row.corner],
                                 words[row.empty], words[row.how]]))  # fmt: skip
    return "".join(f"| {line} |\n" for line in lines)


def main() -> None:
    """Put the tables into the two pages."""
    for language, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        before, rest = text.split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        page.write_text(before + MARKS[0] + "\n" + table(language) + "\n" + MARKS[1] + after,
                        encoding="utf-8")  # fmt: skip


if __name__ == "__main__":
    main()
