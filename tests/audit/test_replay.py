"""Reproducers: short, complete, and beginning from `model`; the zoo runs one for every finding."""

import dataclasses

import numpy as np
import pytest

import hitherto.audit as package
from audit.models import Attention, model
from audit.replayed import MOST, replayed
from hitherto.audit import adapt, audit, replay
from hitherto.audit.case import Case
from hitherto.integrations.transformers import CODE


def test_replay_names_only_what_the_package_exports():
    """A line that cannot be imported is no reproducer."""
    assert set(replay.NAMES) <= set(package.__all__)
    assert all(callable(getattr(package, name)) for name in replay.NAMES)


def test_replay_imports_what_its_lines_use_and_nothing_else():
    case = Case(subject=adapt(model(), name="tiny"), seed=3)
    lines = replay.replay(case, replay.base(case, 7), "print(moved(x, x).max())").splitlines()
    assert lines[1] == "from hitherto.audit import adapt, moved"
    assert lines[2] == "subject = adapt(model)  # tiny"
    assert "default_rng(3)" in lines[3]


def test_replay_spells_modes_and_precision():
    case = dataclasses.replace(Case(subject=adapt(model(), vocab=19)), mode="train")
    assert "mode(mode(adapt(model, vocab=19), 'train'), 'float64')" in replay.replay(
        case, "print(1)", double=True
    )


@pytest.mark.parametrize(
    ("keys", "spelled"),
    [
        ([4], "[4]"),
        ([4, 5], "range(4, 6)"),
        ([0, 15], "[0, 15]"),
        (range(2, 17, 2), "range(2, 17, 2)"),
        (np.array([1, 2, 4]), "[1, 2, 4]"),
    ],
)
def test_positions_are_spelled_as_they_are_read(keys, spelled):
    assert replay.positions(keys) == spelled
    first, *rest = spelled.removeprefix("range").strip("([])").split(", ")
    bounds = [int(first), *map(int, rest)]
    read = list(range(*bounds)) if spelled.startswith("range") else bounds
    assert read == list(keys)


def test_longest_reproducer_has_ten_lines():
    """A subject of transformers takes one import more than others."""
    case = Case(subject=dataclasses.replace(adapt(model()), code=CODE))
    longest = replay.pair(case, [replay.base(case, 7)] * 4, "subject.run(x)", "x", "0", "says")
    assert len(longest.splitlines()) == MOST


def test_call_that_fails_is_told_with_the_call(tmp_path):
    def fails(x):
        raise RuntimeError("no kernel")

    (found,) = audit(fails, width=3).findings
    assert "adapt(model, width=3)" in found.reproducer
    with pytest.raises(Exception, match="no kernel"):
        replayed(found, fails, tmp_path)


def test_terminal_shows_the_reproducer():
    report = audit(model(lambda: Attention(lambda q, k: k <= q + 1)), lengths=(9,), modes=())
    (found,) = report.findings
    assert all(f"    {line}" in str(report).splitlines() for line in found.reproducer.splitlines())
