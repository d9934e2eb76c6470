"""Folders of runs: never one over another, and always found again."""

import json
import os
import signal

import pytest

from hitherto.cli.interrupt import Interrupt
from hitherto.cli.plot import smoothed
from hitherto.cli.runs import Run, checkpoint_of, new_run, old_run
from hitherto.cli.text import opening
from hitherto.errors import ModelError


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_new_run_takes_the_first_free_name():
    """Catches a second demo that writes over the first."""
    names = []
    for _ in range(3):
        run = new_run(None)
        run.remember({})
        names.append(run.folder.name)
    assert names == ["demo", "demo-2", "demo-3"]


def test_old_run_is_the_one_written_last():
    """Catches the newest by name or by creation instead of by work done."""
    first, second = new_run(None), None
    first.remember({})
    second = new_run(None)
    second.remember({})
    os.utime(second.settings, (1, 1))
    assert old_run(None).folder == first.folder
    first.losses.write_text("")
    for path in first.folder.iterdir():
        os.utime(path, (1, 1))
    second.losses.write_text("")
    assert old_run(None).folder == second.folder


def test_a_damaged_run_is_no_run():
    run = Run(new_run(None).folder)
    run.remember({})
    run.settings.write_text("[1")
    with pytest.raises(ModelError, match="holds a run"):
        old_run(run.folder)


def test_rewind_forgets_steps_after_the_checkpoint_and_a_line_cut_short():
    """Catches a loss curve with steps twice, after a kill between two checkpoints."""
    run = new_run(None)
    run.remember({})
    lines = [json.dumps({"step": n, "loss": 1.0}) for n in (1, 2, 3)]
    run.losses.write_text("\n".join(lines) + '\n{"step": 4, "lo')
    run.rewind(2)
    assert [line["step"] for line in run.history()] == [1, 2]


def test_checkpoint_of_takes_a_run_or_its_checkpoint(tmp_path):
    inside = tmp_path / "run" / "checkpoint"
    inside.mkdir(parents=True)
    assert checkpoint_of(tmp_path / "run") == inside
    assert checkpoint_of(inside) == inside


def test_interrupt_asks_once_forgives_twice_and_stops_at_the_third():
    """Catches a second Ctrl-C that cuts a save short, and a process that cannot be stopped."""
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_opening_is_the_first_line_of_prose():
    """Catches a prompt of code or markup when there is prose."""
    text = b">>> f(x, y)\n   3\n\nThe language reference describes the syntax and more of it.\n"
    assert opening(text) == "The language reference describes the syntax"


@pytest.mark.parametrize(("text", "expected"), [(b"\xff\xfe", " "), (b"", " "), (b"a b", "a b")])
def test_opening_of_anything_is_some_prompt(text, expected):
    assert opening(text) == expected


def test_smoothed_follows_from_the_first_value():
    """Catches a curve that begins near zero."""
    assert smoothed([4.0, 4.0, 4.0]) == pytest.approx([4.0, 4.0, 4.0])
    assert smoothed([4.0, 0.0])[1] == pytest.approx(4 * 0.9 / 1.9)
