"""The demo does all it says, loses nothing to Ctrl-C, and explains what it cannot use."""

import json
import os
import signal
import time

import pytest
from typer.testing import CliRunner

from cli.console import hitherto, start
from hitherto.cli.app import app

TEXT = ("The mask says who may attend to whom, and nothing else says it again. " * 80).encode()


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes(TEXT)
    return path


def test_demo_trains_writes_checks_and_says_where_all_lies(tmp_path, text):
    """Catches any part of the demo that does not run, and parts that cannot be run again alone."""
    out = tmp_path / "run"
    done = hitherto("demo", "--text", text, "--seconds", 1, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("own.txt", "Window(", "bits/byte", "held-out text:", "pass  causality",
                 "pass  agreement", "largest difference"):  # fmt: skip
        assert part in done.stdout
    report = json.loads((out / "report.json").read_text())
    assert report["clean"]
    assert 0 < report["held_out"]["bits_per_byte"] < 8.5
    assert [check["verdict"] for check in report["checks"]] == ["clean", "clean"]
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "explore.html").read_text()
    assert '"generation":' in page
    assert '"audit":' in page
    for name in ("loss.png", "sample.txt", "report.json", "explore.html", "checkpoint"):
        assert str(out / name) in done.stdout
    assert "\x1b" not in done.stdout
    _check_the_parts_on(out, text)


def _check_the_parts_on(out, text):
    checked = run("check", out, "--text", text, "--length", 48, "--cuts", 4, "--json")
    assert checked.exit_code == 0, checked.output
    assert [c["clean"] for c in json.loads(checked.stdout)["checks"]] == [True, True]
    options = ("--prompt", "The mask", "--max-tokens", 8, "--seed", 3, "--json")
    written = [json.loads(run("generate", out, *options).stdout)["text"] for _ in range(2)]
    assert written[0] == written[1]
    again = run("demo", "--text", text, "--out", out)
    assert again.exit_code == 2
    assert "--resume" in again.stderr


def test_demo_keeps_everything_on_ctrl_c_and_goes_on(tmp_path, text):
    """Catches a lost step, a second Ctrl-C that cuts the save short, losses logged twice."""
    out = tmp_path / "run"
    process = start("demo", "--text", text, "--seconds", 600, "--out", out)
    try:
        _wait_for(lambda: (out / "loss.jsonl").exists() and (out / "loss.jsonl").read_text())
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=90)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, said
    assert "nothing is lost" in said
    assert f"--resume --out {out}" in said
    assert "Traceback" not in said
    before = (out / "loss.jsonl").read_text()
    done = run("train", text, "--resume", "--out", out, "--seconds", 0.1)
    assert done.exit_code == 0, done.output
    assert (out / "loss.jsonl").read_text().startswith(before)
    steps = [json.loads(line)["step"] for line in (out / "loss.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))


def _wait_for(happened, seconds=90):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.slow
def test_demo_resumed_goes_through_to_the_end(tmp_path, text):
    """Catches a resumed demo that forgets its text, its seconds, or the checks."""
    out = tmp_path / "run"
    assert run("train", text, "--out", out, "--steps", 2).exit_code == 0
    done = hitherto("demo", "--resume", "--out", out, "--seconds", 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after step 2" in done.stdout
    assert json.loads((out / "report.json").read_text())["clean"]


def test_train_then_train_on(tmp_path, text):
    """Catches a resumed run that begins again at step 1, or ends where it began."""
    out = tmp_path / "run"
    first = run("train", text, "--out", out, "--steps", 2, "--json")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["bits_per_byte"] > 0
    more = run("train", text, "--out", out, "--steps", 3, "--resume")
    assert more.exit_code == 0, more.output
    steps = [json.loads(line)["step"] for line in (out / "loss.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "empty"),
        (b"too short", "1024 bytes"),
        ("folder", "directory"),
    ],
)
@pytest.mark.parametrize("command", ["demo", "train"])
def test_bad_texts_are_explained_before_anything_is_written(tmp_path, content, message, command):
    """Catches a traceback, and a run folder left by a command that could not start."""
    path = tmp_path / "text"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    out = tmp_path / "run"
    named = [path, "--steps", 1] if command == "train" else ["--text", path]
    result = run(command, *named, "--out", out)
    assert result.exit_code == 2
    assert message in result.stderr
    assert str(path) in result.stderr
    assert "Traceback" not in result.output
    assert not out.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_text_is_explained(tmp_path, text):
    text.chmod(0)
    result = run("demo", "--text", text, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "ermission" in result.stderr


def test_out_that_is_a_file_is_explained(tmp_path, text):
    result = run("demo", "--text", text, "--out", text)
    assert result.exit_code == 2
    assert "--out must be a folder" in result.stderr
    assert text.read_bytes() == TEXT


def test_out_inside_a_file_is_explained(tmp_path, text):
    result = run("demo", "--text", text, "--out", text / "run")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_out_that_holds_other_files_is_left_alone(tmp_path, text):
    """Catches a run that overwrites what a person keeps in that folder."""
    result = run("demo", "--text", text, "--out", tmp_path)
    assert result.exit_code == 2
    assert "new or empty" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["own.txt"]


def test_resume_without_a_run_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in ((), ("--out", "nowhere")):
        result = run("demo", "--resume", *arguments)
        assert result.exit_code == 2
        assert "--resume needs" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("check",), ("generate", "--prompt", "a")])
def test_a_checkpoint_that_is_none_is_explained(tmp_path, command):
    """Catches a traceback from a missing or damaged checkpoint."""
    name, *options = command
    damaged = tmp_path / "run" / "checkpoint"
    damaged.mkdir(parents=True)
    (damaged / "config.json").write_text("{")
    for folder in (tmp_path / "missing", damaged, damaged.parent, damaged / "config.json"):
        result = run(name, folder, *options)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.output


def test_a_model_that_is_not_over_bytes_is_explained(tmp_path):
    """Catches an index error deep in a model with another vocabulary."""
    from hitherto.model import Decoder, tiny
    from hitherto.training import save

    save(tmp_path / "other", Decoder(tiny(vocab_size=10, width=16, num_layers=1, num_heads=2)))
    for name, *options in (("check",), ("generate", "--prompt", "a")):
        result = run(name, tmp_path / "other", *options)
        assert result.exit_code == 2
        assert "vocab_size 256" in result.stderr


@pytest.mark.parametrize("options", [(), ("--seconds", 1, "--steps", 1)])
def test_train_needs_exactly_one_length(tmp_path, text, options):
    result = run("train", text, "--out", tmp_path / "run", *options)
    assert result.exit_code == 2
    assert "not both" in result.stderr


def test_a_full_disk_is_explained(tmp_path, text):
    """Catches a traceback, and a success claimed for a checkpoint that is not there."""
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from hitherto.cli import main; main()"
    )
    done = hitherto("train", text, "--out", tmp_path / "run", "--steps", 1, code=code)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
