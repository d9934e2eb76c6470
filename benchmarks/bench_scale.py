"""Context parallelism on paper: what plans say for 8 to 4,096 ranks and 1M to 100M tokens.

    python benchmarks/bench_scale.py [--quick]

Nothing runs: cells and keys are counted exactly, time follows from `Topology` and `Layer`, whose
numbers are those of published hardware (docs/scale.md). The last line is JSON.
"""

import argparse
import json
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from hitherto import plan
from hitherto.distributed import Layer, Plan, Topology
from hitherto.mask import Causal, Mask, Prefix, Segments, Window

LENGTHS = {"1M": 1 << 20, "10M": 10 << 20, "100M": 100 << 20}
RANKS = (8, 64, 512, 4096)


def masks(length: int) -> dict[str, Mask]:
    """Return the cases by name; documents have log-normal lengths, 4k tokens on average."""
    drawn = np.random.default_rng(0).lognormal(7.8, 1.0, size=length // 1000).astype(int) + 1
    ends = np.minimum(np.cumsum(drawn), length)
    lengths = np.diff(np.unique(np.concatenate([[0], ends, [length]])))
    return {
        "causal": Causal(),
        "window 4096": Causal() & Window(4096),
        "sinks and window": Causal() & (Window(4096) | Prefix(4)),
        "packed": Causal() & Segments.from_lengths(lengths.tolist()),
    }


def ideal(made: Plan) -> float:
    """Return the seconds of a layer if all was dealt evenly and nothing travelled."""
    cells, tokens = made.cells.mean(), made.dealing.tokens.mean()
    attend, linear = made.topology.compute(made.layer, np.array(cells), np.array(tokens))
    return float(attend + linear)


def row(name: str, mask: Mask, length: int, ranks: int) -> dict:
    began = time.perf_counter()
    made = plan(mask, length, length, ranks, topology=Topology(), layer=Layer())
    seconds = made.seconds
    return {
        "mask": name, "tokens": length, "ranks": ranks, "dealing": made.name,
        "cells_max_over_mean": made.balance, "rows_max_over_mean": made.token_balance,
        "received_most_bytes": int(made.received.max()) * made.layer.key_bytes,
        "of_a_ring": made.bytes / made.ring_bytes, "layer_s": seconds,
        "of_ideal": ideal(made) / seconds, "planned_in_s": time.perf_counter() - began,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1M tokens only")
    quick = parser.parse_args().quick
    rows = []
    table = Table(title="one layer forward, by the plan")
    for head in ("mask", "tokens", "ranks", "dealing", "cells", "rows", "received at most",
                 "of a ring", "time", "of ideal", "planned in"):  # fmt: skip
        table.add_column(head, justify="left" if head in ("mask", "dealing") else "right")
    for label, length in list(LENGTHS.items())[: 1 if quick else None]:
        for name, mask in masks(length).items():
            for ranks in RANKS:
                one = row(name, mask, length, ranks)
                rows.append(one)
                table.add_row(
                    name, label, f"{ranks:,}", one["dealing"],
                    f"{one['cells_max_over_mean']:.3f}", f"{one['rows_max_over_mean']:.2f}",
                    f"{one['received_most_bytes'] / 2**30:.3g} GiB", f"{one['of_a_ring']:.2%}",
                    f"{one['layer_s'] * 1e3:.3g} ms", f"{one['of_ideal']:.0%}",
                    f"{one['planned_in_s']:.2f} s",
                )  # fmt: skip
    Console(width=140).print(table)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
