"""Attention over processes: two of one thread each, beside one process with two threads.

    python benchmarks/bench_distributed.py [--quick] [--length 16384] [--times 3]

A row is one mask, forward and backward; the best of some turns, the two ways in turn. The last
line is JSON. The two processes talk by gloo, as over a network. Run it on an idle machine.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch import Tensor

from hitherto import attend, plan
from hitherto.distributed import context_parallel, shard
from hitherto.mask import Causal, Mask, Prefix, Segments, Window

RANKS, HEADS, KV_HEADS, HEAD_DIM = 2, 4, 2, 64


def masks(length: int) -> dict[str, Mask]:
    """Return the cases by name."""
    return {
        "causal": Causal(),
        "window 1024": Causal() & Window(1024),
        "sinks and window": Causal() & (Window(1024) | Prefix(4)),
        "packed": Causal() & Segments.from_lengths([length // 8] * 8),
    }


def tensors(length: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = [(HEADS, length), (KV_HEADS, length), (KV_HEADS, length), (HEADS, length)]
    return [torch.randn(1, *shape, HEAD_DIM, generator=random) for shape in shapes]


def timed(call: Callable, q: Tensor, k: Tensor, v: Tensor, grad: Tensor, mask: Mask) -> float:
    """Return the seconds of one pass forward and backward."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    began = time.perf_counter()
    call(*leaves, mask).backward(grad)
    return time.perf_counter() - began


def alone(length: int, turns: "multiprocessing.Queue", answers: "multiprocessing.Queue") -> None:
    """Time one process with as many threads as there are ranks, whenever asked."""
    torch.set_num_threads(RANKS)
    held = tensors(length)
    while (name := turns.get()) is not None:
        answers.put(timed(attend, *held, masks(length)[name]))


def ranked(
    rank: int, meeting: str, length: int, turns: "multiprocessing.Queue",
    answers: "multiprocessing.Queue",
) -> None:  # fmt: skip
    """Time one rank of one thread, whenever asked; the slower rank counts."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=RANKS)
    held = tensors(length)
    while (name := turns.get()) is not None:
        mask = masks(length)[name]
        made = plan(mask, length, length, RANKS)
        part = [shard(x, made, rank, 2) for x in held]
        call = context_parallel(made)
        dist.barrier()
        seconds = torch.tensor(timed(call, *part, mask))
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        if rank == 0:
            answers.put((float(seconds), made.bytes, made.name))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=16384)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="2048 tokens, once")
    args = parser.parse_args()
    length, times = (2048, 1) if args.quick else (args.length, args.times)
    context = multiprocessing.get_context("spawn")
    questions = [context.Queue() for _ in range(1 + RANKS)]
    one, many = context.Queue(), context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        processes = [context.Process(target=alone, args=(length, questions[0], one))]
        processes += [
            context.Process(target=ranked, args=(rank, meeting, length, questions[1 + rank], many))
            for rank in range(RANKS)
        ]
        for process in processes:
            process.start()
        rows = [_measure(name, times, questions, one, many) for name in masks(length)]
        for question in questions:
            question.put(None)
        for process in processes:
            process.join()
    _print(rows, length)


def _measure(name: str, times: int, questions: list, one, many) -> dict:
    best, together, said = float("inf"), float("inf"), (0, "")
    for turn in range(1 + times):
        questions[0].put(name)
        single = one.get()
        for question in questions[1:]:
            question.put(name)
        both, *said = many.get()
        if turn or times == 1:
            best, together = min(best, single), min(together, both)
    return {"mask": name, "alone_s": best, "together_s": together, "ratio": together / best,
            "dealing": said[1]}  # fmt: skip


def _print(rows: list[dict], length: int) -> None:
    table = Table(title=f"{length:,} tokens, {HEADS} heads of {HEAD_DIM}, forward and backward")
    for name in ("mask", "dealing", f"1 process x {RANKS}", f"{RANKS} processes x 1", "ratio"):
        table.add_column(name)
    for row in rows:
        seconds = f"{row['alone_s']:.2f} s", f"{row['together_s']:.2f} s"
        table.add_row(row["mask"], row["dealing"], *seconds, f"{row['ratio']:.2f}")
    Console().print(table)
    print(json.dumps({"length": length, "rows": rows}))


if __name__ == "__main__":
    main()
