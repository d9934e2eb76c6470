"""One new token: attention over a long cache and the small-batch linear, against read bandwidth.

    python benchmarks/bench_decode.py [--threads N] [--clock cpu]

Each case runs ours and torch's in turns; rates count the bytes that must be read. The last line is
JSON.
"""

import json
import statistics

import torch
from bench_attention import in_turns, options, peak
from rich.console import Console
from rich.table import Table
from torch.nn.functional import linear, scaled_dot_product_attention

from hitherto.attention import native
from hitherto.attention.prepare import prepare
from hitherto.mask import Causal


def decode(keys: int, dtype: torch.dtype, rounds: int, clock) -> dict:
    q = torch.randn(1, 32, 1, 64).to(dtype)
    k, v = (torch.randn(1, 8, keys, 64).to(dtype) for _ in range(2))
    call = prepare(q, k, v, Causal(), None, None, None, None, None, None)
    runs = {
        "ours": lambda: native.forward(*call),
        "torch": lambda: scaled_dot_product_attention(q, k, v, enable_gqa=True),
    }
    name = f"decode, GQA 32/8 x 64, {keys} keys"
    return row(name, dtype, in_turns(runs, rounds, clock), k.nbytes + v.nbytes)


def project(rows: int, dtype: torch.dtype, rounds: int, clock) -> dict:
    x, weight = torch.randn(rows, 4096).to(dtype), torch.randn(8192, 4096).to(dtype)
    runs = {"ours": lambda: native.linear(x, weight), "torch": lambda: linear(x, weight)}
    name = f"linear 4096 -> 8192, {rows} rows"
    return row(name, dtype, in_turns(runs, rounds, clock), weight.nbytes)


def row(name: str, dtype: torch.dtype, times: dict[str, list], nbytes: int) -> dict:
    rates = {who: nbytes / statistics.median(found) / 1e9 for who, found in times.items()}
    ratio = statistics.median(b / a for a, b in zip(times["ours"], times["torch"], strict=True))
    return {"case": name, "dtype": str(dtype), "gb_s": rates, "ratio": ratio}


def main() -> None:
    """Measure every case and print."""
    found = options(__doc__.splitlines()[0])
    if not native.SETS:
        raise SystemExit(native.ABSENT)
    _, bandwidth = peak(found.threads, found.clock)
    table = Table(title=f"{found.threads} threads, {native.SETS[0]}: reads {bandwidth:.1f} GB/s")
    for column in ("case", "dtype", "ours GB/s", "of reads", "torch GB/s", "ratio"):
        table.add_column(column)
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        rows += [decode(keys, dtype, found.rounds, found.clock) for keys in (8192, 32768)]
        rows += [project(n, dtype, found.rounds, found.clock) for n in (1, 4, 8)]
    for one in rows:
        ours, other = one["gb_s"]["ours"], one["gb_s"]["torch"]
        table.add_row(one["case"], one["dtype"], f"{ours:.1f}", f"{ours / bandwidth:.0%}",
                      f"{other:.1f}", f"{one['ratio']:.2f}")  # fmt: skip
    Console(width=110).print(table)
    print(json.dumps({"read_gb_s": bandwidth, "threads": found.threads, "kernels": native.SETS[0],
                      "cases": rows}))  # fmt: skip


if __name__ == "__main__":
    main()
