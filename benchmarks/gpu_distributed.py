"""Context parallelism on GPUs: exactness against float64, then time beside one GPU.

    torchrun --nproc-per-node 8 benchmarks/gpu_distributed.py [--length 65536]

No GPU was lent to this project when this was written: it has not run on one. It needs nccl, and
one GPU a process. The last line of rank 0 is JSON.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist

from hitherto import attend, plan
from hitherto.distributed import context_parallel, shard
from hitherto.mask import Causal, Segments, Window

HEADS, KV_HEADS, HEAD_DIM, SMALL, TIMES = 32, 8, 128, 2048, 5


def tensors(length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    random = torch.Generator(device="cuda").manual_seed(0)
    shapes = [(HEADS, length), (KV_HEADS, length), (KV_HEADS, length), (HEADS, length)]
    return [torch.randn(1, *shape, HEAD_DIM, generator=random, device="cuda").to(dtype)
            for shape in shapes]  # fmt: skip


def gradients(call, q, k, v, grad, mask) -> list[torch.Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out = call(*leaves, mask)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def error(mask, rank: int, ranks: int) -> float:
    """Return the largest error of outputs and gradients, beside float64 in one process."""
    exact = gradients(attend, *tensors(SMALL, torch.float64), mask)
    made = plan(mask, SMALL, SMALL, ranks)
    part = [shard(x, made, rank, 2) for x in tensors(SMALL, torch.float32)]
    ours = gradients(context_parallel(made), *part, mask)
    return max(
        (x.double() - shard(y, made, rank, 2)).abs().max().item()
        for x, y in zip(ours, exact, strict=True)
    )


def seconds(mask, length: int, rank: int, ranks: int) -> float:
    """Return the best time of a pass forward and backward, the slowest rank's."""
    made = plan(mask, length, length, ranks)
    part = [shard(x, made, rank, 2) for x in tensors(length, torch.bfloat16)]
    call, best = context_parallel(made), float("inf")
    for _ in range(TIMES):
        dist.barrier()
        torch.cuda.synchronize()
        began = time.perf_counter()
        gradients(call, *part, mask)
        torch.cuda.synchronize()
        took = torch.tensor(time.perf_counter() - began, device="cuda")
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        best = min(best, took.item())
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=65536)
    length = parser.parse_args().length
    if not torch.cuda.is_available():
        raise SystemExit("this script needs a GPU a process; none is here")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    rows = []
    for name in ("causal", "window", "packed"):
        masks = {
            size: {"causal": Causal(), "window": Causal() & Window(size // 16),
                   "packed": Causal() & Segments.from_lengths([size // 8] * 8)}[name]
            for size in (SMALL, length)
        }  # fmt: skip
        found = {"mask": name, "error": error(masks[SMALL], rank, ranks),
                 "seconds": seconds(masks[length], length, rank, ranks)}  # fmt: skip
        rows.append(found)
        if rank == 0:
            print(f"{name:8} error {found['error']:.2e}  {found['seconds'] * 1e3:.1f} ms")
    if rank == 0:
        print(json.dumps({"ranks": ranks, "length": length, "rows": rows}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
