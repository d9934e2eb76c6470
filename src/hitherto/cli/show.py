"""`hitherto show`: a mask's picture and its exact counts."""

import json as jsonlib
import sys

from rich.console import Console

from hitherto.cli.blame import read_mask
from hitherto.cli.terminal import OK, console, say
from hitherto.mask import Mask, axes, bind_batch, density, empty_rows, is_causal, pairs
from hitherto.picture import draw
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
    json: bool,
) -> int:
    """Print the picture of a mask on a grid, and what is true of it."""
    mask = read_mask(text)
    k_len = length if keys is None else keys
    if start is None and k_len < length:
        start = 0
    facts = _facts(mask, length, k_len, start, batch, head)
    if why:
        facts["why"] = reason(mask, *why, batch=batch, head=head)
    if json:
        sys.stdout.write(jsonlib.dumps(facts) + "\n")
        return OK
    out = console()
    say(out, text.strip(), "bold")
    if length and k_len:
        say(out)
        _picture(out, mask, facts)
    say(out)
    for line in _lines(facts):
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


def _picture(out: Console, mask: Mask, facts: dict) -> None:
    encoding = (out.file.encoding or "utf-8").lower()
    picture = draw(
        mask,
        facts["queries"],
        facts["keys"],
        q_start=facts["start"],
        batch=facts["batch"],
        head=facts["head"],
        width=out.width,
        color=out.is_terminal and not out.no_color,
        ascii="utf" not in encoding,
    )
    out.file.write(picture + "\n")


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
