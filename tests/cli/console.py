"""Run the command as a person does: another process, no terminal."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
CODE = "from hitherto.cli import main; main()"


def environment(**more):
    quiet = {"PYTHONPATH": str(SOURCE), "COLUMNS": "80", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    return os.environ | quiet | more


def hitherto(*arguments, code=CODE, env=None):
    """Return the finished process; its output as text."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(**(env or {})),
        timeout=240,
    )


def start(*arguments):
    """Return the process while it runs."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )
