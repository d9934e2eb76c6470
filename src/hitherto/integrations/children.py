"""Run a function in child processes, each with its own time and memory: what breaks stays there."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

MEMORY = 6 * 2**30
"""Bytes that a child may map beyond what its parent has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one task."""

    task: Any
    value: Any = None
    """What the function returned; None when it did not."""
    error: str = ""
    """Why it did not return: what it raised, "took longer than ...", or how the child ended."""
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class _Child:
    task: Any
    process: Any
    pipe: Connection
    started: float


def run_each(
    function: Callable[[Any], Any], tasks: Iterable[Any], *, jobs: int, timeout_s: float
) -> Iterator[Outcome]:
    """Run the function on each task in a child of its own; yield the outcomes as they come.

    Args:
        function: takes a task and returns something that pickles. It runs in a copy of this
            process where the system can fork, so what is imported already costs nothing.
        tasks: one child each.
        jobs: children at a time.
        timeout_s: a child that takes longer is ended.
    """
    kind = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context, left, running = multiprocessing.get_context(kind), list(tasks)[::-1], []
    try:
        while left or running:
            while left and len(running) < jobs:
                running.append(_start(context, function, left.pop()))
            wait([child.pipe for child in running], timeout=0.2)
            for child in list(running):
                outcome = _finished(child, timeout_s)
                if outcome:
                    running.remove(child)
                    yield outcome
    finally:
        for child in running:
            _end(child)


def _start(context: Any, function: Callable, task: Any) -> _Child:
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, function, task), daemon=True)
    process.start()
    there.close()
    return _Child(task, process, here, time.monotonic())


def _finished(child: _Child, timeout_s: float) -> Outcome | None:
    seconds = time.monotonic() - child.started
    if child.pipe.poll():
        try:
            value, error = child.pipe.recv()
        except EOFError:
            child.process.join(1)
            value, error = None, f"ended with exit code {child.process.exitcode}"
    elif seconds > timeout_s:
        value, error = None, f"took longer than {timeout_s:g} s"
    else:
        return None
    _end(child)
    return Outcome(task=child.task, value=value, error=error, seconds=seconds)


def _end(child: _Child) -> None:
    if child.process.is_alive():
        child.process.join(0.2)
    if child.process.is_alive():
        child.process.kill()
    child.process.join()
    child.pipe.close()


def _work(pipe: Connection, function: Callable, task: Any) -> None:
    _limit_memory()
    try:
        pipe.send((function(task), ""))
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        pipe.send((None, f"{type(error).__name__}: {' '.join(lines)[:300]}"))
    finally:
        pipe.close()


def _limit_memory() -> None:
    """Let allocations fail beyond `MEMORY`, where the system can say so."""
    try:
        import resource

        with open("/proc/self/statm") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, hard))
    except (ImportError, OSError, ValueError):
        return
