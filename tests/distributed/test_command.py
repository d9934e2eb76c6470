"""`hitherto plan` and `hitherto train --context-parallel`, as a person starts them."""

import json
import subprocess
import sys

import pytest

from cli.console import environment, hitherto


def test_plan_prints_itself_beside_the_usual_dealings():
    found = hitherto("plan", "Causal() & Window(512)", "--length", "64k", "--ranks", "16")
    assert found.returncode == 0, found.stderr
    for word in ("contiguous", "zigzag", "of a ring", "rank 15", "receives 511 keys from 0"):
        assert word in found.stdout


def test_plan_as_json_holds_the_numbers():
    found = hitherto("plan", "Causal()", "--length", "16k", "--ranks", "8", "--json")
    facts = json.loads(found.stdout)
    assert facts["cells"] == (1 << 14) * ((1 << 14) + 1) // 2
    assert facts["cells_max_over_mean"] <= 1.02
    assert [one["dealing"] for one in facts["beside"]] == ["contiguous", "zigzag"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["plan", "Causal(", "--length", "8", "--ranks", "2"], "mask"),
        (["plan", "Causal()", "--length", "8", "--ranks", "2", "--dealing", "x"], "dealing"),
    ],
)
def test_plan_refuses_bad_input_with_exit_2(arguments, word):
    found = hitherto(*arguments)
    assert found.returncode == 2
    assert word in found.stderr
    assert "Traceback" not in found.stderr


def test_context_parallel_without_torchrun_says_how_to_start(tmp_path):
    found = hitherto("train", __file__, "--out", tmp_path / "run", "--steps", "2",
                     "--context-parallel", "2")  # fmt: skip
    assert found.returncode == 2
    assert "torchrun --nproc-per-node" in found.stderr


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "loss.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_train_over_ranks_gives_the_losses_of_one_process(tmp_path):
    """A seed that counts by rank; a checkpoint that `generate` cannot open."""
    text = tmp_path / "text"
    text.write_bytes(b"A query sees what the mask says it may see. " * 200)
    alone = hitherto("train", text, "--out", tmp_path / "alone", "--steps", "3")
    assert alone.returncode == 0, alone.stderr
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m",
        "hitherto.cli", "train", text, "--out", tmp_path / "both", "--steps", "3",
        "--context-parallel", "2", "--json",
    ]  # fmt: skip
    both = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment(), timeout=400
    )
    assert both.returncode == 0, both.stderr
    assert json.loads(both.stdout.splitlines()[-1])["checkpoint"]
    assert losses(tmp_path / "both") == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)
    wrote = hitherto("generate", tmp_path / "both", "--prompt", "A", "--max-tokens", "4")
    assert wrote.returncode == 0, wrote.stderr
