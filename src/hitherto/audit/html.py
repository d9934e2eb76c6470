"""A report as one self-contained page: the maps side by side, findings, coverage."""

from html import escape

import numpy as np

from hitherto.audit.report import Finding, Report, runs_of_row

BOX = 300
"""Width of a map, in pixels."""
STYLE = """
:root{--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--see:#2f6f9f;--leak:#c62828;--blind:#e69500;
--paper:#fff;--field:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--line:#3a424c;--see:#6cb2e6;
--leak:#ff6b6b;--blind:#f2b84b;--paper:#14181d;--field:#1e242b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;
max-width:1080px;padding:0 1rem}
h1{font-size:1.3rem;margin:0}h2{font-size:1rem;margin:2rem 0 .5rem}
.soft,figcaption,th{color:var(--soft);font-weight:400}.maps{display:flex;flex-wrap:wrap;gap:1.5rem}
figure{margin:0}svg{display:block;background:var(--field);border:1px solid var(--line)}
.see{fill:var(--see)}.leak{fill:var(--leak)}.blind{fill:var(--blind)}
article{border-left:4px solid var(--leak);padding:.1rem 0 .1rem 1rem;margin:1rem 0}
article.blind{border-color:var(--blind)}article p{margin:.2rem 0}
pre{background:var(--field);padding:.7rem;overflow:auto;font-size:13px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .8rem .25rem 0;
border-bottom:1px solid var(--line);vertical-align:top}
"""


def page(report: Report) -> str:
    """Return the page; no scripts, no network."""
    title = f"{report.subject}: {report.verdict}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=soft>declared {escape(report.declared)} &middot; {report.forwards} forwards, "
        f"{report.seconds:.1f} s, seed {report.seed}</p>",
        _maps(report),
        "<h2>Findings</h2>" if report.findings else "<h2>No findings</h2>",
        *map(_article, report.findings),
        _table("Covered", [(line,) for line in report.covered]),
        _table("Not covered, and why", list(report.not_covered)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _maps(report: Report) -> str:
    declared, measured = report.declared_map, report.measured_map
    if declared is None or measured is None:
        return ""
    both, leak, blind = declared & measured, measured & ~declared, declared & ~measured
    names = f"{int(leak.sum())} hidden pairs that move, {int(blind.sum())} visible that never did"
    figures = [
        _figure("declared: what may matter, through all layers", [("see", declared)]),
        _figure("measured: what moved", [("see", measured)]),
        _figure(f"difference: {names}", [("see faint", both), ("leak", leak), ("blind", blind)]),
    ]
    return (
        f"<h2>Maps at {len(declared)} positions</h2><p class=soft>Rows are outputs, columns are "
        "inputs, both from 0 at the top left. "
        '<svg width=12 height=12 style="display:inline;border:0"><rect class=leak width=12 '
        "height=12 /></svg> leak: hidden, but moves. "
        '<svg width=12 height=12 style="display:inline;border:0"><rect class=blind width=12 '
        "height=12 /></svg> blind: visible, but never moved.</p>"
        f"<div class=maps>{''.join(figures)}</div>"
    )


def _figure(caption: str, layers: list[tuple[str, np.ndarray]]) -> str:
    queries, keys = layers[0][1].shape
    paths = "".join(
        f'<path class="{name}" opacity="{0.25 if "faint" in name else 1}" d="{_path(grid)}"/>'
        for name, grid in layers
        if grid.any()
    )
    label = escape(caption)
    return (
        f'<figure><svg role="img" aria-label="{label}" width="{BOX}" '
        f'height="{max(BOX * queries // max(keys, 1), 1)}" viewBox="0 0 {keys} {queries}" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges">{paths}</svg>'
        f"<figcaption>{label}</figcaption></figure>"
    )


def _path(grid: np.ndarray) -> str:
    """One rectangle for each run of a row, and for equal rows below one another."""
    rows = [tuple(map(tuple, runs_of_row(row))) for row in grid]
    pieces, top = [], 0
    for row in range(1, len(rows) + 1):
        if row == len(rows) or rows[row] != rows[top]:
            pieces += [f"M{a} {top}h{b - a}v{row - top}h{a - b}z" for a, b in rows[top]]
            top = row
    return "".join(pieces)


def _article(finding: Finding) -> str:
    pair = f", output {finding.pair[0]} by input {finding.pair[1]}" if finding.pair else ""
    size = f", size {finding.size:.2g} of the outputs' scale" if finding.size else ""
    where = f" in <code>{escape(finding.module)}</code>" if finding.module else ""
    lines = [
        f"<p><b>{finding.kind}: {escape(finding.cause)}</b>{where}</p>",
        f"<p class=soft>{escape(finding.mode)}, length {finding.length}{pair}{size}; probe "
        f"{escape(finding.probe)}</p>",
        f"<p>{escape(finding.detail)}</p>" if finding.detail else "",
        f"<p>Next: {escape(finding.next_step)}</p>",
        f"<pre>{escape(finding.reproducer)}</pre>" if finding.reproducer else "",
    ]
    return f'<article class="{finding.kind}">{"".join(lines)}</article>'


def _table(title: str, rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<h2>{title}</h2><table>{body}</table>"
