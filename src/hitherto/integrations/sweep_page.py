"""The table of a sweep: as text, as Markdown and as one self-contained page."""

from collections.abc import Sequence
from html import escape

from hitherto.integrations.columns import COLUMNS
from hitherto.integrations.sweep import Row

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;
color:#1b1f24;background:#fff}table{border-collapse:collapse}th,td{text-align:left;
padding:.2rem .9rem .2rem 0;border-bottom:1px solid #d0d7de;vertical-align:top}
.fault{color:#c62828;font-weight:600}.soft{color:#57606a}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#14181d}
th,td{border-color:#3a424c}.fault{color:#ff6b6b}.soft{color:#9aa4af}}
"""


def table(rows: Sequence[Row], columns: Sequence[str], only_faults: bool = False) -> str:
    """Return a Markdown table, one line an architecture; it reads well in a terminal too."""
    shown = [row for row in rows if row.cells and (row.fault or not only_faults)]
    head = ["architecture", *columns]
    body = [[row.key, *(row.cells[c].verdict for c in columns)] for row in shown]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(c.ljust(w) for c, w in zip(cells, widths, strict=True))} |"

    return "\n".join([line(head), line(["-" * w for w in widths]), *map(line, body)])


def covered(rows: Sequence[Row]) -> list[str]:
    """Say how many architectures ran, and name those that did not, with the reason."""
    lines = []
    for task in sorted({row.task for row in rows}):
        of_task = [row for row in rows if row.task == task]
        ran = sum(bool(row.cells) for row in of_task)
        share = 100 * ran / len(of_task)
        lines.append(f"{task}: {ran} of {len(of_task)} architectures audited ({share:.1f} %)")
        lines += [f"  left out: {row.name}: {row.left_out}" for row in of_task if row.left_out]
    return lines


def page(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return one page with the table, and below it what was found and what was left out."""
    import transformers

    head = "".join(f"<th title='{escape(COLUMNS[c])}'>{escape(c)}</th>" for c in columns)
    body = "".join(_line(row, columns) for row in rows if row.cells)
    notes = "".join(f"<li>{escape(line)}</li>" for line in covered(rows))
    faults = "".join(
        f"<li><b>{escape(row.key)}</b>, {escape(name)}: {escape(cell.note)}</li>"
        for row in rows for name, cell in row.cells.items() if cell.fault
    )  # fmt: skip
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>hitherto sweep</title>"
        f"<style>{_STYLE}</style><h1>transformers {escape(transformers.__version__)}</h1>"
        f"<ul class=soft>{notes}</ul><table><tr><th>architecture</th>{head}</tr>{body}</table>"
        f"<h2>Found</h2><ul>{faults or '<li>nothing</li>'}</ul></html>\n"
    )


def _line(row: Row, columns: Sequence[str]) -> str:
    cells = "".join(
        f"<td class='{'fault' if row.cells[c].fault else ''}' title='{escape(row.cells[c].note)}'>"
        f"{escape(row.cells[c].verdict)}</td>"
        for c in columns
    )
    return f"<tr title='{escape(row.note)}'><td>{escape(row.key)}</td>{cells}</tr>"
