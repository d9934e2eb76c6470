"""Processes that stand for ranks: one group on this machine, by gloo, for as long as a test."""

import multiprocessing
import os
import queue
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

# A server that has imported torch forks the ranks: a fresh interpreter each would take seconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["distributed.preload"])


def on_ranks(
    work: Callable[..., object], ranks: int, folder: Path, *args: object, patience_s: float = 180
) -> list:
    """Run `work(rank, ranks, *args)` in a process a rank, in one group; return what each gave.

    A rank that raises gives its error to the test; one that dies gives None. `patience_s` is how
    long a rank waits for another.
    """
    answers = _CONTEXT.Queue()
    meeting = folder / f"meeting-{ranks}-{time.monotonic_ns()}"
    processes = [
        _CONTEXT.Process(target=_rank, args=(work, rank, ranks, meeting, patience_s, answers, args))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    found: dict[int, object] = {}
    until = time.monotonic() + 900
    try:
        while len(found) < ranks and time.monotonic() < until:
            try:
                rank, value, trace = answers.get(timeout=1)
            except queue.Empty:
                if not any(process.is_alive() for process in processes):
                    break
                continue
            assert trace is None, f"rank {rank} of {ranks}:\n{trace}"
            found[rank] = value
    finally:
        for process in processes:
            if len(found) < ranks:
                process.kill()
            process.join()
    return [found.get(rank) for rank in range(ranks)]


def _rank(work, rank, ranks, meeting, patience_s, answers, args) -> None:
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks,
        timeout=timedelta(seconds=patience_s),
    )  # fmt: skip
    value, trace = None, None
    try:
        value = work(rank, ranks, *args)
    except BaseException:
        trace = traceback.format_exc()
    answers.put((rank, value, trace))
    if trace is None:
        # The first to leave would take the connection from those that still need it.
        with suppress(RuntimeError):
            dist.barrier()
        dist.destroy_process_group()
