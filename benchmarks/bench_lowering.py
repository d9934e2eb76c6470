"""What a FlexAttention BlockMask costs: straight from spans, and the usual ways.

    python benchmarks/bench_lowering.py [--quick]

Contenders of a row take turns in one process; times are medians of wall time after one warm-up.
torch's `create_block_mask` stops at the length whose memory or time would pass the limits below;
attn-gym's fast causal, which knows one mask, is skipped where it is not installed. Tables are
compared before they are timed. The last line is JSON.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from hitherto.lowering import lower
from hitherto.mask import Causal, Mask, Prefix, Segments, Window

BLOCK = 128
GYM = "attn-gym fast causal"
WINDOW = 4096
DOCUMENT = 1000
"""Tokens of a packed document, on average."""
MOST_BYTES = 6 << 30
"""What torch's builder may take: 2 bytes a cell, and int64 tables."""
MOST_SECONDS = 40.0
SLOW = 0.5
"""Seconds from which once is enough."""
MILLION = 1 << 20
BAR_MS = 100.0
BAR_TIMES = 100.0


def documents(length: int) -> np.ndarray:
    """Number the documents of a packed batch."""
    rng = np.random.default_rng(0)
    return np.cumsum(rng.random(length) < 1 / DOCUMENT)


def masks(length: int) -> dict[str, tuple[Mask, Callable]]:
    """Name -> (ours, the mask_mod that torch's users write)."""
    ids = documents(length)
    doc = torch.from_numpy(ids)
    return {
        "causal": (Causal(), lambda b, h, q, k: k <= q),
        "window": (Causal() & Window(WINDOW), lambda b, h, q, k: (k <= q) & (q - k < WINDOW)),
        "packed documents": (
            Causal() & Segments(ids), lambda b, h, q, k: (k <= q) & (doc[q] == doc[k]),
        ),
        "prefix": (Causal() | Prefix(1000), lambda b, h, q, k: (k <= q) | (k < 1000)),
        "sinks + window": (
            Causal() & (Window(WINDOW) | Prefix(4)),
            lambda b, h, q, k: (k <= q) & ((q - k < WINDOW) | (k < 4)),
        ),
    }  # fmt: skip


def in_turns(builders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Call all of them in turn, `rounds` times after one warm-up: the median seconds of each.

    One whose warm-up took longer than SLOW is not called again: that is its time.
    """
    taken: dict[str, list[float]] = {name: [] for name in builders}
    for turn in range(rounds + 1):
        for name, build in builders.items():
            if turn and taken[name][0] > SLOW:
                continue
            start = time.perf_counter()
            build()
            taken[name].append(time.perf_counter() - start)
    return {name: median(seconds[1:] or seconds) for name, seconds in taken.items()}


def same_tables(one: BlockMask, two: BlockMask) -> bool:
    """Compare what kernels read: the lists before each row's count, forward and backward."""
    for kind in ("kv", "full_kv", "q", "full_q"):
        counts = [getattr(m, f"{kind}_num_blocks") for m in (one, two)]
        lists = [getattr(m, f"{kind}_indices") for m in (one, two)]
        read = torch.arange(lists[0].shape[-1]) < counts[0][..., None]
        if not torch.equal(*counts) or not torch.equal(lists[0][read], lists[1][read]):
            return False
    return True


def contenders(name: str, length: int, usual: bool) -> dict[str, Callable[[], BlockMask]]:
    """Return who can build a mask at a length."""
    mask, mod = masks(length)[name]
    found = {"hitherto": partial(lower, mask, "flex", length, length, block=BLOCK)}
    if name == "causal" and importlib.util.find_spec("attn_gym"):
        from attn_gym.masks.causal import create_causal_block_mask_fast

        device = torch.device("cpu")
        found[GYM] = partial(create_causal_block_mask_fast, 1, 1, length, length, device, BLOCK)
    if usual:
        found["torch"] = partial(create_block_mask, mod, None, None, length, length, "cpu", BLOCK)
    return found


def compare(lengths: list[int], only: list[str], rounds: int) -> tuple[list[dict], list[str]]:
    """Build every mask at every length, by all who can."""
    rows: list[dict] = []
    notes = [] if importlib.util.find_spec("attn_gym") else [f"{GYM}: attn-gym is not installed"]
    slowest = 0.0
    for length in lengths:
        usual = length * length * 2 < MOST_BYTES and slowest < MOST_SECONDS
        if not usual:
            notes.append(f"torch at {length:,}: {length**2:.1e} cells")
        for name in only:
            who = contenders(name, length, usual)
            same = same_tables(who["hitherto"](), who["torch"]()) if usual else None
            seconds = in_turns(who, rounds)
            slowest = max(slowest, 16 * seconds.get("torch", 0.0))
            rows.append({"mask": name, "length": length, "seconds": seconds, "same_tables": same})
    return rows, notes


def show(console: Console, rows: list[dict]) -> None:
    """Print the rows, as milliseconds and times ours."""
    table = Table(title=f"BlockMask of {BLOCK} x {BLOCK} tiles: milliseconds, and times ours")
    names = ["hitherto", "torch", GYM]
    for column in ("mask", "length", *names, "tables"):
        table.add_column(column, justify="left" if column == "mask" else "right")
    for row in rows:
        ours = row["seconds"]["hitherto"]
        cells = [f"{1e3 * ours:.2f}"]
        for name in names[1:]:
            taken = row["seconds"].get(name)
            cells.append("-" if taken is None else f"{1e3 * taken:.1f} ({taken / ours:.0f}x)")
        same = {None: "-", True: "equal", False: "DIFFER"}[row["same_tables"]]
        table.add_row(row["mask"], f"{row['length']:,}", *cells, same)
    console.print(table)


def versions() -> dict[str, str]:
    """Name what was measured."""
    found = {"python": platform.python_version(), "cpus": str(os.cpu_count())}
    for package in ("torch", "numpy", "attn-gym"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def verdicts(rows: list[dict]) -> dict[str, bool]:
    """Decide the bars: equal tables, 100 times faster at 32k, a million tokens in 100 ms."""
    at_32k = [row["seconds"] for row in rows if row["length"] == 1 << 15]
    faster = [s["torch"] / s["hitherto"] for s in at_32k if "torch" in s]
    million = [row["seconds"]["hitherto"] for row in rows if row["length"] == MILLION]
    return {
        "tables_equal": all(row["same_tables"] is not False for row in rows),
        "100x_at_32k": bool(faster) and min(faster) >= BAR_TIMES,
        "causal_million_under_100ms": bool(million) and 1e3 * million[0] < BAR_MS,
        "every_million_under_100ms": bool(million) and 1e3 * max(million) < BAR_MS,
    }


def main() -> None:
    """Measure, print the table, end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short lengths, few rounds")
    parser.add_argument("--lengths", help="with commas; default 8192,32768,131072,1048576")
    parser.add_argument("--only", help="the masks to build, with commas; default all")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(width=120 if not sys.stdout.isatty() else None)
    console.print(", ".join(f"{name} {version}" for name, version in versions().items()))
    lengths = [1024, 2048] if asked.quick else [1 << 13, 1 << 15, 1 << 17, 1 << 20]
    if asked.lengths:
        lengths = [int(n) for n in asked.lengths.split(",")]
    only = asked.only.split(",") if asked.only else list(masks(2))
    rows, notes = compare(lengths, only, 3 if asked.quick else 5)
    show(console, rows)
    for note in notes:
        console.print(f"skipped: {note}")
    result = {"theme": "lowering", "versions": versions(), "rows": rows, "skipped": notes}
    print(json.dumps(result | {"verdicts": verdicts(rows)}))


if __name__ == "__main__":
    main()
