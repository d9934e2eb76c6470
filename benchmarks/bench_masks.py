"""What a mask costs at a million tokens, and what the usual ways cost at lengths they survive.

    python benchmarks/bench_masks.py [--quick]

Peers (torch `create_block_mask`, transformers `sdpa_mask`, attn-gym's fast causal) are not
dependencies: those that are not installed are skipped, with the reason. All contenders of a row
take turns in one process; times are medians, memory is asked of one fresh process per mask. A peer
stops at the length whose memory or time would pass the limits below. The last line is JSON.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from rich.console import Console
from rich.table import Table

from hitherto.mask import Causal, Mask, Prefix, Segments, Window, bind, blocks

LENGTH = 1 << 20
DOCUMENTS = 10_000
WINDOW = 4096
BLOCK = 128
MOST_MEMORY = 4 << 30
"""Bytes a peer may be expected to take."""
MOST_SECONDS = 10.0
"""Seconds a peer may be expected to take, once."""
BLOCKS_BAR_MS = 50.0
MEMORY_BAR_MIB = 50.0


def packed(length: int = LENGTH, documents: int = DOCUMENTS) -> Segments:
    """Documents of random lengths, laid end to end."""
    cuts = np.random.default_rng(0).choice(length - 1, documents - 1, replace=False) + 1
    edges = np.concatenate([[0], np.sort(cuts), [length]])
    return Segments.from_lengths(np.diff(edges).tolist())


MASKS: dict[str, tuple[float, Callable[[], Mask]]] = {
    "causal": (1.0, Causal),
    "window": (1.0, lambda: Causal() & Window(WINDOW)),
    "sinks + window": (1.0, lambda: Causal() & (Window(WINDOW) | Prefix(4))),
    "prefix": (1.0, lambda: Causal() | Prefix(1000)),
    "packed documents & window": (30.0, lambda: Causal() & packed() & Window(WINDOW)),
}
"""Name -> (bar in ms for bind, how to build it)."""


@dataclass
class Cost:
    """One mask at LENGTH: milliseconds and MiB."""

    mask: str
    build_ms: float
    bind_ms: float
    bind_bar_ms: float
    blocks_ms: float
    runs: int
    traced_mib: float
    resident_mib: float

    @property
    def passes(self) -> bool:
        """Whether every bar is met."""
        memory = max(self.traced_mib, self.resident_mib)
        fast = self.bind_ms < self.bind_bar_ms and self.blocks_ms < BLOCKS_BAR_MS
        return fast and memory < MEMORY_BAR_MIB


def in_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Call all of them in turn, `rounds` times after one warm-up: the median seconds of each."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, ask in contenders.items():
            start = time.perf_counter()
            ask()
            if turn:
                taken[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in taken.items()}


def resident_peak_mib() -> float:
    """Return the most memory this process has held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def measure_memory(name: str) -> None:
    """Print MiB above the built mask: traced, then resident. Run in a process of its own."""
    mask = MASKS[name][1]()
    bind(mask, 8, 8, q_start=0)
    before = resident_peak_mib()
    blocks(bind(mask, LENGTH, LENGTH), BLOCK, BLOCK)
    resident = resident_peak_mib() - before
    tracemalloc.start()
    blocks(bind(mask, LENGTH, LENGTH), BLOCK, BLOCK)
    print(json.dumps([tracemalloc.get_traced_memory()[1] / 2**20, resident]))


def memory_of(name: str) -> list[float]:
    """Ask a fresh process."""
    run = [sys.executable, __file__, "--memory", name]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def costs(rounds: int) -> list[Cost]:
    """Time every mask at LENGTH, in turns."""
    built = {name: build() for name, (_, build) in MASKS.items()}
    spans = {name: bind(mask, LENGTH, LENGTH) for name, mask in built.items()}
    asked: dict[str, Callable[[], object]] = {}
    for name, mask in built.items():
        asked[f"build {name}"] = MASKS[name][1]
        asked[f"bind {name}"] = lambda mask=mask: bind(mask, LENGTH, LENGTH)
        asked[f"blocks {name}"] = lambda bound=spans[name]: blocks(bound, BLOCK, BLOCK)
    taken = in_turns(asked, rounds)
    return [
        Cost(
            name,
            1e3 * taken[f"build {name}"],
            1e3 * taken[f"bind {name}"],
            bar,
            1e3 * taken[f"blocks {name}"],
            spans[name].starts.size,
            *memory_of(name),
        )
        for name, (bar, _) in MASKS.items()
    ]


@dataclass
class Peer:
    """Another way to the same mask: `ask(mask name, length)` returns the work to time."""

    name: str
    ask: Callable[[str, int], Callable[[], object] | None]
    bytes_at: Callable[[int], float]


def peers() -> tuple[list[Peer], list[str]]:
    """Return the peers that are installed, and why the others are not here."""
    found, missing = [], []
    for name, module, build in (
        ("torch create_block_mask", "torch", torch_peer),
        ("transformers sdpa_mask", "transformers", transformers_peer),
        ("attn-gym fast causal", "attn_gym", attn_gym_peer),
    ):
        if importlib.util.find_spec(module) is None:
            missing.append(f"{name}: {module} is not installed")
            continue
        try:
            found.append(Peer(name, *build()))
        except (ImportError, AttributeError) as error:
            missing.append(f"{name}: {error}")
    return found, missing


def document_ids(length: int):
    """Return ids of documents of about a hundred tokens, as at LENGTH."""
    import torch

    return torch.as_tensor(packed(length, max(2, length * DOCUMENTS // LENGTH)).ids.copy())


def rule_of(mask: str, length: int):
    """Return the mask as a torch rule of (batch, head, q, k)."""
    if mask == "causal":
        return lambda b, h, q, k: q >= k
    if mask == "window":
        return lambda b, h, q, k: (q >= k) & (q - k < WINDOW)
    ids = document_ids(length)
    return lambda b, h, q, k: (q >= k) & (ids[q] == ids[k]) & (q - k < WINDOW)


def torch_peer():
    """Eager create_block_mask: evaluates every cell."""
    from torch.nn.attention.flex_attention import create_block_mask

    def ask(mask: str, n: int) -> Callable[[], object]:
        rule = rule_of(mask, n)
        return lambda: create_block_mask(rule, None, None, n, n, device="cpu", BLOCK_SIZE=BLOCK)

    return ask, lambda n: 16.0 * n * n


def transformers_peer():
    """The dense mask that models of transformers pass to SDPA."""
    from transformers.masking_utils import sdpa_mask

    def ask(mask: str, n: int) -> Callable[[], object]:
        rule = rule_of(mask, n)
        return lambda: sdpa_mask(
            1, n, n, mask_function=rule, allow_is_causal_skip=False, device="cpu"
        )

    return ask, lambda n: 12.0 * n * n


def attn_gym_peer():
    """A causal block mask written down by formula; of causal only."""
    from attn_gym.masks.causal import create_causal_block_mask_fast

    def ask(mask: str, n: int) -> Callable[[], object] | None:
        if mask != "causal":
            return None
        return lambda: create_causal_block_mask_fast(1, 1, n, n, "cpu", BLOCK)

    return ask, lambda n: 48.0 * (n / BLOCK) ** 2


def ours_at(mask: str, n: int) -> Callable[[], object]:
    """Bind and classify the tiles: what create_block_mask returns."""
    documents = max(2, n * DOCUMENTS // LENGTH)
    built = {
        "causal": Causal,
        "window": lambda: Causal() & Window(WINDOW),
        "packed documents & window": lambda: Causal() & packed(n, documents) & Window(WINDOW),
    }[mask]()
    return lambda: blocks(bind(built, n, n), BLOCK, BLOCK)


def available_memory() -> int:
    """Return the bytes that are free now."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def compare(lengths: list[int], rounds: int) -> tuple[list[dict], list[str]]:
    """Time ours and every peer at rising lengths, until a peer would not survive."""
    contestants, notes = peers()
    rows: list[dict] = []
    for mask in ("causal", "window", "packed documents & window"):
        last = {peer.name: (0.0, 0) for peer in contestants}
        for n in lengths:
            asked = {"hitherto": ours_at(mask, n)}
            for peer in contestants:
                seconds, at = last[peer.name]
                ask = peer.ask(mask, n)
                if ask is None:
                    continue
                limit = min(MOST_MEMORY, available_memory() // 2)
                if peer.bytes_at(n) > limit:
                    notes.append(
                        f"{peer.name}, {mask}, {n}: needs {peer.bytes_at(n) / 2**30:.0f} GiB"
                    )
                elif at and seconds * (n / at) ** 2 > MOST_SECONDS:
                    notes.append(f"{peer.name}, {mask}, {n}: about {seconds * (n / at) ** 2:.0f} s")
                else:
                    asked[peer.name] = ask
            taken = in_turns(asked, rounds)
            last |= {name: (taken[name], n) for name in taken if name != "hitherto"}
            rows.append({"mask": mask, "length": n, "seconds": taken})
    return rows, notes


def versions() -> dict[str, str]:
    """Return what was measured on what."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("numpy", "torch", "transformers", "attn_gym"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found | {"cores": str(os.cpu_count())}


def show_costs(console: Console, found: list[Cost]) -> None:
    """Print ours at a million tokens."""
    table = Table(title=f"{LENGTH:,} tokens: milliseconds (median) and MiB above the built mask")
    for column in ("mask", "build", "bind", "bar", "blocks", "bar", "runs", "traced", "RSS", "bar"):
        table.add_column(column, justify="left" if column == "mask" else "right")
    table.add_column("")
    for cost in found:
        table.add_row(
            cost.mask, f"{cost.build_ms:.2f}", f"{cost.bind_ms:.3f}", f"{cost.bind_bar_ms:g}",
            f"{cost.blocks_ms:.2f}", f"{BLOCKS_BAR_MS:g}", f"{cost.runs:,}",
            f"{cost.traced_mib:.1f}", f"{cost.resident_mib:.1f}", f"{MEMORY_BAR_MIB:g}",
            "pass" if cost.passes else "MISS",
        )  # fmt: skip
    console.print(table)


def show_comparison(console: Console, rows: list[dict], notes: list[str]) -> None:
    """Print ours beside the peers, as times ours."""
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    table = Table(title=f"tiles of {BLOCK} x {BLOCK}: milliseconds (median), and times ours")
    for column in ("mask", "length", *names):
        table.add_column(column, justify="left" if column == "mask" else "right")
    for row in rows:
        ours = row["seconds"]["hitherto"]
        cells = [f"{1e3 * ours:.2f}"]
        for name in names[1:]:
            seconds = row["seconds"].get(name)
            cells.append("-" if seconds is None else f"{1e3 * seconds:.2f} ({seconds / ours:.1f}x)")
        table.add_row(row["mask"], f"{row['length']:,}", *cells)
    console.print(table)
    for note in notes:
        console.print(f"skipped: {note}")


def main() -> None:
    """Measure, print the tables, end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, short lengths")
    parser.add_argument("--memory", choices=MASKS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        measure_memory(asked.memory)
        return
    console = Console(width=132 if not sys.stdout.isatty() else None)
    console.print(", ".join(f"{name} {version}" for name, version in versions().items()))
    found = costs(5 if asked.quick else 25)
    show_costs(console, found)
    lengths = [1024, 2048] if asked.quick else [1 << n for n in (10, 12, 13, 14, 16, 18, 20)]
    rows, notes = compare(lengths, 3 if asked.quick else 5)
    show_comparison(console, rows, notes)
    result = {
        "theme": "masks",
        "versions": versions(),
        "length": LENGTH,
        "costs": [asdict(cost) | {"passes": cost.passes} for cost in found],
        "peers": rows,
        "skipped": notes,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
