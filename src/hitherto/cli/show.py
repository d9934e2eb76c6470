"""`hitherto show`: a mask's picture and its exact counts."""

import json as jsonlib
import re
import sys
from pathlib import Path

from rich.console import Console
from typer import BadParameter

from hitherto.cli.blame import read_mask
from hitherto.cli.lengths import length as read_length
from hitherto.cli.terminal import OK, console, say
from hitherto.errors import MaskError, explain
from hitherto.mask import Mask, axes, bind_batch, density, empty_rows, is_causal, pairs
from hitherto.picture import Drawing, draw
from hitherto.picture import why as reason
from hitherto.picture.choice import chosen


def show(
    text: str,
    length: int,
    keys: int | None,
    start: int | None,
    batch: int,
    head: int,
    why: tuple[int, int] | None,
    zoom: str | None,
    svg: Path | None,
    png: Path | None,
    json: bool,
) -> int:
    """Print the picture of a mask on a grid, and what is true of it; write it where asked."""
    mask = read_mask(text)
    k_len = length if keys is None else keys
    if start is None and k_len < length:
        start = 0
    facts = _facts(mask, length, k_len, start, batch, head)
    if why:
        facts["why"] = reason(mask, *why, batch=batch, head=head)
    out = console(json)
    if (length and k_len) or zoom or svg or png:
        picture = _picture(out, mask, facts, zoom)
        if svg:
            svg.write_text(picture.svg(), encoding="utf-8")
        if png:
            png.write_bytes(picture.png())
    if json:
        sys.stdout.write(jsonlib.dumps(facts) + "\n")
        return OK
    say(out, text.strip(), "bold")
    if length and k_len:
        out.file.write(f"\n{picture}\n")
    say(out)
    for line in [*_lines(facts), *(f"written   {path}" for path in (svg, png) if path)]:
        say(out, line)
    return OK


def _facts(mask: Mask, length: int, k_len: int, start: int | None, batch: int, head: int) -> dict:
    """Return what is true of one batch row and head, as plain values."""
    _, one = chosen(mask, batch, head)
    spans = bind_batch(one, length, k_len, start)[0, 0]
    causal, empty = is_causal(spans), empty_rows(spans)
    always = is_causal(one)
    return {
        "mask": str(mask),
        "axes": axes(mask),
        "batch": batch,
        "head": head,
        "queries": length,
        "keys": k_len,
        "start": spans.q_start,
        "pairs": int(pairs(spans)),
        "density": float(density(spans)),
        "empty_rows": len(empty),
        "first_empty_rows": [int(q) for q in empty[:5]],
        "causal": causal.value,
        "causal_at_every_length": always.value,
        "witness": [int(p) for p in causal.witness] if causal.witness else None,
    }


def _picture(out: Console, mask: Mask, facts: dict, zoom: str | None) -> Drawing:
    queries = range(facts["start"], facts["start"] + facts["queries"])
    queries, keys = _zoomed(zoom, queries, range(facts["keys"]))
    return draw(
        mask,
        q_pos=queries,
        k_pos=keys,
        batch=facts["batch"],
        head=facts["head"],
        width=out.width,
        color=out.is_terminal and not out.no_color,
        ascii="utf" not in (out.file.encoding or "utf-8").lower(),
    )


def _zoomed(zoom: str | None, queries: range, keys: range) -> tuple[range, range]:
    """Read `q0:q1,k0:k1`; an end that is left out is the grid's."""
    if zoom is None:
        return queries, keys
    found = re.fullmatch(r"(\w*):(\w*),(\w*):(\w*)", zoom.replace(" ", ""))
    try:
        ends = [read_length(end) if end else None for end in found.groups()] if found else []
    except BadParameter:
        ends = []
    if ends:
        q = range(*_ends(ends[:2], queries))
        k = range(*_ends(ends[2:], keys))
        if q and k and q[0] in queries and q[-1] in queries and k[-1] in keys:
            return q, k
    raise MaskError(
        explain("--zoom", f"must be q0:q1,k0:k1 inside queries {queries.start}:{queries.stop} and "
                f"keys 0:{keys.stop}", zoom, "write e.g. --zoom 0:64,0:64")
    )  # fmt: skip


def _ends(ends: list[int | None], whole: range) -> tuple[int, int]:
    start, stop = ends
    return whole.start if start is None else start, whole.stop if stop is None else stop


def _lines(facts: dict) -> list[str]:
    cells = facts["queries"] * facts["keys"]
    empty = facts["empty_rows"]
    rows = ", ".join(f"{q:,}" for q in facts["first_empty_rows"])
    rest = ", ..." if empty > len(facts["first_empty_rows"]) else ""
    lines = [
        f"grid      {facts['queries']:,} queries from {facts['start']:,} x {facts['keys']:,} keys",
        f"visible   {facts['pairs']:,} of {cells:,} pairs ({facts['density']:.4%})",
        f"empty     {f'{empty:,} rows see nothing: {rows}{rest}' if empty else 'no row'}",
        f"causal    {_causal(facts)}",
    ]
    return lines + ([f"why       {facts['why']}"] if "why" in facts else [])


def _causal(facts: dict) -> str:
    if not facts["causal"]:
        q, k = facts["witness"]
        return f"no: query {q:,} may see key {k:,}"
    if facts["causal_at_every_length"]:
        return "yes, at every length"
    return "yes, on this grid" + ("" if facts["causal_at_every_length"] is None else ", not on all")
