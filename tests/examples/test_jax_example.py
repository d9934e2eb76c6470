"""The JAX example: run as a person runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_jax_example_agrees_with_jax_nn():
    """An example that no longer runs, or whose two sides drift apart."""
    pytest.importorskip("jax", reason="JAX is not installed")
    path = ROOT / "examples" / "jax_attend.py"
    assert len(path.read_text().splitlines()) < 80
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("at most ")[1]) < 1e-4
