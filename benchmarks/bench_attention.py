"""Attention on the CPU: ours and torch's in turns, beside what the machine can do at most.

    python benchmarks/bench_attention.py [--quick] [--threads N] [--dtype float32] [--clock cpu]

A row is one case; the last line is JSON. Rates count useful work: 4 floating-point operations a
visible cell and number of head_dim, 14 with the backward pass. On a machine that others use too,
`--clock cpu --threads 1` counts the thread's own time instead of the wall's. `--flex` adds compiled
flex_attention, which takes long to compile; onnxruntime's Attention is among the peers where it is
installed. Both run forward only.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from attention_peers import flex, onnx
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hitherto.attention import native
from hitherto.attention.prepare import prepare
from hitherto.mask import (
    Causal,
    Chunks,
    Dilated,
    Everything,
    Keys,
    Mask,
    Prefix,
    Queries,
    RandomBlocks,
    Segments,
    Window,
    evaluate,
    pairs,
)

Run = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the table."""

    name: str
    mask: Mask
    length: int
    heads: int = 8
    kv_heads: int = 8
    head_dim: int = 64
    batch: int = 1


def cases(quick: bool) -> list[Case]:
    causal, near = Causal(), Causal() & Window(256)
    docs = causal & Segments.from_lengths([512] * 8)
    big_bird = RandomBlocks(64, 3, 0) | Chunks(192) | Keys(range(128)) | Queries(range(128))
    rows = [
        Case(name="causal", mask=causal, length=1024),
        Case(name="causal", mask=causal, length=4096),
        Case(name="everything", mask=Everything(), length=2048 if quick else 4096),
        Case(name="head_dim 128", mask=causal, length=1024, head_dim=128),
        Case(name="head_dim 256", mask=causal, length=1024, head_dim=256),
        Case(name="GQA 32/8", mask=causal, length=1024, heads=32),
        Case(name="batch 4 x 512", mask=causal, length=512, batch=4),
        Case(name="window 256", mask=near, length=4096),
        Case(name="documents of 512", mask=docs, length=4096),
        Case(name="sinks + window", mask=causal & (Window(256) | Prefix(4)), length=4096),
        Case(name="prefix-LM", mask=causal | Prefix(1024), length=4096),
        Case(name="chunks of 1024", mask=causal & Chunks(1024), length=4096),
        Case(name="BigBird", mask=big_bird, length=4096),
        Case(name="dilated 64 x 4", mask=Dilated(64, 4), length=4096),
    ]
    if quick:
        return rows
    far = [Case(name="causal", mask=causal, length=16384),
           Case(name="window 256", mask=near, length=65536)]  # fmt: skip
    return rows + far


def peers(case: Case, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Run]:
    """Every other way to compute the case exactly."""
    gqa = case.heads != case.kv_heads
    found: dict[str, Run] = {}
    if case.mask in (Causal(), Everything()):
        causal = case.mask == Causal()
        found["sdpa"] = lambda: scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=gqa
        )
    elif case.length <= 4096:
        positions = torch.arange(case.length).numpy()
        seen = torch.tensor(evaluate(case.mask, positions, positions))
        found["dense"] = lambda: scaled_dot_product_attention(q, k, v, seen, enable_gqa=gqa)
    if case.name.startswith("documents"):
        cuts = [x.split(512, 2) for x in (q, k, v)]
        found["loop"] = lambda: torch.cat(
            [scaled_dot_product_attention(*x, is_causal=True) for x in zip(*cuts, strict=True)], 2
        )
    return found


def in_turns(runs: dict[str, Run], rounds: int, clock: Callable[[], float]) -> dict[str, list]:
    """Time each run once a round, so that what disturbs one disturbs all."""
    times: dict[str, list] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return {name: found[1:] for name, found in times.items()}


def measure(
    case: Case, dtype: torch.dtype, rounds: int, clock: Callable[[], float], with_flex: bool
) -> list[dict]:
    def tensor(heads: int) -> Tensor:
        shape = (case.batch, heads, case.length, case.head_dim)
        return torch.randn(shape, dtype=dtype, requires_grad=True)

    q, k, v = tensor(case.heads), tensor(case.kv_heads), tensor(case.kv_heads)
    call = prepare(q, k, v, case.mask, None, None, None, None, None, None)
    grad = torch.randn(q.shape, dtype=dtype)
    runs = {"ours": lambda: native.run(*call)[0], **peers(case, q, k, v)}
    cells = pairs(case.mask, case.length, case.length) * case.heads * case.batch * case.head_dim

    def without_grad(run: Run) -> Run:
        return torch.no_grad()(run)

    def with_grad(run: Run) -> Run:
        return lambda: torch.autograd.grad(run(), (q, k, v), grad)

    others = {"flex": flex if with_flex else None, "onnxruntime": onnx}
    ahead = {name: peer(case.mask, q, k, v) for name, peer in others.items() if peer}
    ahead = runs | {name: run for name, run in ahead.items() if run}
    kinds = {"forward": (ahead, without_grad, 4), "forward + backward": (runs, with_grad, 14)}
    rows = []
    for kind, (who, change, work) in kinds.items():
        times = in_turns({name: change(run) for name, run in who.items()}, rounds, clock)
        rows.append(summary(case, kind, times, work * cells))
    return rows


def summary(case: Case, kind: str, times: dict[str, list], work: int) -> dict:
    """Rates from the medians, and the median of the ratios to the best peer, round by round."""
    rates = {name: work / statistics.median(found) / 1e9 for name, found in times.items()}
    others = [found for name, found in times.items() if name != "ours"]
    ratio = None
    if others:
        best = min(others, key=statistics.median)
        ratio = statistics.median(b / a for a, b in zip(times["ours"], best, strict=True))
    return {"case": case.name, "length": case.length, "kind": kind, "gflops": rates, "ratio": ratio}


def peak(threads: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Measured multiply-adds in GFLOP/s and reads in GB/s, the best of several."""
    from hitherto import _native

    block = torch.ones(1 << 25)  # zeros would be one page of memory, read again and again
    rates = []
    for _ in range(6):
        start = clock()
        done = _native.multiply_adds(native.SETS[0], threads, 1_000_000)
        middle = clock()
        _native.read(native.SETS[0], block.data_ptr(), block.nbytes, threads)
        rates.append((done / (middle - start) / 1e9, block.nbytes / (clock() - middle) / 1e9))
    return max(rate for rate, _ in rates), max(rate for _, rate in rates)


def options(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter cases")
    parser.add_argument("--only", default="", help="run only cases whose name has this in it")
    parser.add_argument("--flex", action="store_true", help="also compile flex_attention")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--rounds", type=int, default=7)
    found = parser.parse_args()
    if found.clock == "cpu" and found.threads != 1:
        parser.error("--clock cpu counts one thread: add --threads 1")
    torch.set_num_threads(found.threads)
    found.clock = time.thread_time if found.clock == "cpu" else time.perf_counter
    return found


def main() -> None:
    """Measure every case and print."""
    found = options(__doc__.splitlines()[0])
    if not native.SETS:
        raise SystemExit(native.ABSENT)
    most, bandwidth = peak(found.threads, found.clock)
    table = Table(title=f"{found.dtype}, {found.threads} threads, {native.SETS[0]}: "
                  f"peak {most:.0f} GFLOP/s float32, {bandwidth:.1f} GB/s")  # fmt: skip
    for column in ("case", "length", "", "ours GFLOP/s", "of peak", "peers GFLOP/s", "ratio"):
        table.add_column(column, justify="left" if column in ("case", "") else "right")
    rows = []
    for case in [case for case in cases(found.quick) if found.only in case.name]:
        for row in measure(
            case, getattr(torch, found.dtype), found.rounds, found.clock, found.flex
        ):
            ours = row["gflops"]["ours"]
            others = "  ".join(f"{n} {x:.0f}" for n, x in row["gflops"].items() if n != "ours")
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            table.add_row(row["case"], str(row["length"]), row["kind"], f"{ours:.0f}",
                          f"{ours / most:.0%}", others, ratio)  # fmt: skip
            rows.append(row)
    Console(width=110).print(table)
    print(json.dumps({"peak_gflops": most, "read_gb_s": bandwidth, "threads": found.threads,
                      "dtype": found.dtype, "kernels": native.SETS[0], "cases": rows}))  # fmt: skip


if __name__ == "__main__":
    main()
