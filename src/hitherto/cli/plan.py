"""`hitherto plan`: how a mask is dealt to ranks, what each does and what travels."""

import json as jsonlib
import sys

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from hitherto.cli.blame import read_mask
from hitherto.cli.terminal import OK, console, say
from hitherto.distributed import Dealing, Plan
from hitherto.distributed import plan as planned

SHADES, PLAIN = " ░▒▓█", " .:+#"
COLUMNS, LINES = 64, 16


def plan(
    text: str, length: int, keys: int | None, ranks: int, block: int | None, dealing: str,
    json: bool,
) -> int:  # fmt: skip
    """Print a plan beside the two dealings that are usual."""
    mask = read_mask(text)
    k_len = length if keys is None else keys

    def dealt(way: str) -> Plan:
        return planned(mask, length, k_len, ranks, block=block, dealing=way)

    chosen, others = dealt(dealing), [dealt(way) for way in ("contiguous", "zigzag")]
    if json:
        plans = [_facts(one) for one in others]
        sys.stdout.write(
            jsonlib.dumps(_facts(chosen) | {"mask": str(mask), "beside": plans}) + "\n"
        )
        return OK
    out = console()
    say(out, f"{text.strip()}: {length:,} queries x {k_len:,} keys on {ranks:,} ranks", "bold")
    say(out, f"\ndealt: {chosen.name}, because {chosen.reason}\n")
    out.print(_table([chosen, *(one for one in others if one.name != chosen.name)]))
    say(out)
    for line in picture(chosen.dealing, ascii="utf" not in (out.file.encoding or "utf-8").lower()):
        say(out, line)
    _ranks(out, chosen)
    return OK


def _facts(plan: Plan) -> dict:
    return {
        "dealing": plan.name,
        "reason": plan.reason,
        "ranks": plan.ranks,
        "cells": int(plan.cells.sum()),
        "cells_most": int(plan.cells.max()),
        "cells_ideal": plan.ideal,
        "cells_max_over_mean": plan.balance,
        "rows_max_over_mean": plan.token_balance,
        "bytes": plan.bytes,
        "bytes_of_ring": plan.ring_bytes,
        "seconds": plan.seconds,
    }


def _table(plans: list[Plan]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    heads = ("dealing", "cells", "rows", "sent a layer", "of a ring", "received at most", "time")
    for name in heads:
        table.add_column(name, justify="left" if name == "dealing" else "right")
    for plan in plans:
        share = plan.bytes / plan.ring_bytes if plan.ring_bytes else 0.0
        most = int(plan.received.max()) * plan.layer.key_bytes
        table.add_row(
            plan.name, f"{plan.balance:.3f}", f"{plan.token_balance:.3f}", size(plan.bytes),
            f"{share:.2%}", size(most), f"{plan.seconds * 1e3:.3g} ms",
        )  # fmt: skip
    table.caption = (
        "cells, rows: most of a rank / mean. Sent: keys and values, forward, all ranks; time of a "
        "layer forward: both for the Topology and Layer of hitherto.distributed."
    )
    table.caption_justify = "left"
    return table


def size(nbytes: float) -> str:
    """Spell bytes with three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.4g} TiB"


def picture(dealing: Dealing, ascii: bool = False) -> list[str]:
    """Draw who owns what: ranks down, positions across; a full block is owned whole."""
    lines = min(dealing.ranks, LINES)
    first, stop = int(dealing.cuts[0]), int(dealing.cuts[-1])
    columns = max(1, min(COLUMNS, stop - first))
    edges = first + np.arange(columns + 1) * (stop - first) // columns
    inside = np.clip(edges, dealing.cuts[:-1, None], dealing.cuts[1:, None])
    owned = np.zeros((lines, columns), np.int64)
    np.add.at(owned, dealing.owner * lines // dealing.ranks, np.diff(inside, axis=1))
    share = owned / np.maximum(np.diff(edges), 1)
    marks = np.array(list(PLAIN if ascii else SHADES))[np.ceil(share * 4).astype(int)]
    firsts = -(-np.arange(lines + 1) * dealing.ranks // lines)
    margin = len(str(dealing.ranks - 1))
    drawn = [
        f"rank {str(rank).rjust(margin)} {''.join(row)}|"
        for rank, row in zip(firsts, marks, strict=False)
    ]
    scale = f"{'':{margin + 6}}{first}{f'{stop:,}':>{columns - len(str(first))}}"
    return [scale, *drawn]


def _ranks(out: Console, plan: Plan) -> None:
    """Say what the first and the busiest rank do."""
    busiest = int(plan.cells.argmax())
    say(out)
    for rank in dict.fromkeys([0, busiest, plan.ranks - 1]):
        sources = [t.source for t in plan.transfers(rank) if t.source != rank]
        named = ", ".join(map(str, sources[:4])) + ", ..." * (len(sources) > 4)
        stretches = len(plan.dealing.queries(rank))
        say(
            out,
            f"rank {rank}: {int(plan.dealing.tokens[rank]):,} rows in {stretches} stretches, "
            f"{int(plan.cells[rank]):,} cells; receives {int(plan.received[rank]):,} keys "
            f"from {named or 'nobody'}",
        )
