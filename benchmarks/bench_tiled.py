"""tiled against torch's kernel with the dense mask: time and peak memory, forward and backward.

    python benchmarks/bench_tiled.py [--length 4096] [--threads 1] [--repeats 3]

Each case runs in a process of its own, so that its peak memory is its own. Times are the best of
`repeats`; memory is what the calls added to the process. Ends with one JSON line.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

HEADS, HEAD_DIM = 8, 64
LENGTHS = (4096, 8192, 16384, 32768)


def masks(length: int) -> dict:
    from hitherto.mask import Causal, Prefix, Segments, Window

    return {
        "window 256": Causal() & Window(256),
        "packed 512": Causal() & Segments.from_lengths([512] * (length // 512)),
        "sinks + window": Causal() & (Window(256) | Prefix(4)),
    }


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, length: int, engine: str, threads: int, repeats: int) -> dict:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from hitherto.attention import attend
    from hitherto.mask import evaluate

    torch.set_num_threads(threads)
    mask = masks(length)[name]
    q, k, v = (torch.randn(1, HEADS, length, HEAD_DIM, requires_grad=True) for _ in range(3))
    grad = torch.randn_like(q)
    if engine == "sdpa":
        import numpy as np

        # The mask is ready before the clock starts, and each of its blocks of rows at a time, so
        # that neither its evaluation nor its temporaries count against torch.
        dense = torch.empty(length, length, dtype=torch.bool)
        for row in range(0, length, 256):
            q_pos = np.arange(row, row + 256)
            dense[row : row + 256] = torch.tensor(evaluate(mask, q_pos, np.arange(length)))

    def forward():
        if engine == "sdpa":
            return scaled_dot_product_attention(q, k, v, dense)
        return attend(q, k, v, mask, backend="tiled")

    before, first = peak_mib(), time.perf_counter()
    torch.autograd.grad(forward(), (q, k, v), grad)
    first = time.perf_counter() - first
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        out = forward()
        middle = time.perf_counter()
        torch.autograd.grad(out, (q, k, v), grad)
        times.append((time.perf_counter() - start, middle - start))
    both, only_forward = (min(column) for column in zip(*times, strict=True))
    return {"mask": name, "length": length, "engine": engine, "forward_s": only_forward,
            "both_s": both, "first_s": first, "added_mib": peak_mib() - before}  # fmt: skip


def alone(name: str, length: int, engine: str, options: argparse.Namespace) -> dict:
    """Measure one case in its own process."""
    chosen = {"case": name, "length": length, "engine": engine, "threads": options.threads,
              "repeats": options.repeats}  # fmt: skip
    flags = [part for flag, value in chosen.items() for part in (f"--{flag}", str(value))]
    command = [sys.executable, __file__, *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.length, options.engine, options.threads,
                                 options.repeats)))  # fmt: skip
        return
    rows = []
    print(f"float32, {HEADS} heads x {HEAD_DIM}, {options.threads} thread(s)\n")
    print(f"{'mask':16}{'length':>8}{'engine':>8}{'forward':>10}{'both':>10}{'speedup':>9}"
          f"{'added MiB':>11}")  # fmt: skip
    for name in masks(options.length):
        pair = [alone(name, options.length, engine, options) for engine in ("sdpa", "tiled")]
        rows += pair
        for row in pair:
            show(row, pair[0]["both_s"] / row["both_s"])
    print("\nmemory and time of tiled by length")
    for length in LENGTHS:
        row = alone("sinks + window", length, "tiled", options)
        rows.append(row)
        show(row)
    print(json.dumps({"bench": "tiled", "heads": HEADS, "head_dim": HEAD_DIM,
                      "threads": options.threads, "rows": rows}))  # fmt: skip


def show(row: dict, speedup: float | None = None) -> None:
    ratio = "" if speedup is None else f"{speedup:.1f}x"
    forward, both = (f"{row[name] * 1e3:.0f} ms" for name in ("forward_s", "both_s"))
    print(f"{row['mask']:16}{row['length']:>8}{row['engine']:>8}{forward:>10}{both:>10}"
          f"{ratio:>9}{row['added_mib']:>11.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
    main()
