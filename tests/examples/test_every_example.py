"""Each example runs as a person runs it, within half a minute, without a warning, and says this."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAYS = {
    "sliding_window": "68 kept, positions [0, 1, 2, 3] and 336..399; the same outputs",
    "packed_documents": "4 documents packed give what each gives alone",
    "prefix_and_image": "causal: False, query 3 sees key 4, 1 ahead",
    "video_and_text": "hidden: key at 1 s, query sees up to 0.7 s, Timeline(...)",
    "music_tracks": "changing beat 6 moves rows [6, 7]: beats from 6 on, and no chord",
    "speculative_tree": "one step gives what this branch gives alone: the dog slept",
    "bigbird_longformer": "98.6%",
    "audit_leaky_model": "leak at (0, 1) in layers.1 (Mixer): every output sees 1 position ahead",
    "flex_attention": "FlexAttention gives what attend gives",
}
ELSEWHERE = {"dates", "jax_attend"}
"""Examples with tests of their own."""


def test_every_example_is_run_and_short():
    """Catches an example that nothing runs, or that has grown into a program."""
    files = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
    assert files.keys() == SAYS.keys() | ELSEWHERE
    for name in SAYS:
        assert len(files[name].read_text().splitlines()) < 80


@pytest.mark.parametrize("name", SAYS)
def test_example_runs_and_says(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
