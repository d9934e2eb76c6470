"""The audit against the zoo: every planted fault found, by kind and module; no false alarm."""

import pytest

from audit.replayed import shows
from zoo import SPECIMENS
from zoo.verdict import audited, look, quick, wrong

EACH = pytest.mark.parametrize(
    "specimen",
    [
        pytest.param(s, id=s.name, marks=[pytest.mark.slow] * ("compiled" in s.doors))
        for s in SPECIMENS
    ],
)
BY_NAME = {specimen.name: specimen for specimen in SPECIMENS}


@EACH
def test_audit_tells_specimen(specimen, tmp_path):
    """Each specimen is a public bug or a public false alarm; `Specimen.source` links it.

    What is found can be seen again: the reproducer of every finding is run from a new model.
    """
    report = look(specimen, **quick(specimen))
    assert not wrong(specimen, report)
    for finding in report.findings:
        assert not shows(finding, audited(specimen), tmp_path)


@pytest.mark.parametrize(
    "name", ["losses of rows mix", "a count of the labels reaches the outputs"]
)
def test_audit_tries_more_than_one_set_of_other_labels(name):
    """Labels of length 8 that have the counted class as often as the first: nothing moved."""
    specimen = BY_NAME[name]
    assert not wrong(specimen, look(specimen, lengths=(8,), modes=("labels",)))


@pytest.mark.slow
@EACH
def test_audit_tells_specimen_by_itself(specimen):
    """The same with nothing chosen by hand: the audit picks lengths and modes, but for `compiled`,
    which it runs only when asked.
    """
    if "compiled" not in specimen.doors:
        assert not wrong(specimen, look(specimen))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decoder", "rotary"])
def test_audit_of_a_clean_model_is_clean_when_compiled(name):
    """Compiled code adds in another order: rounding, in every shape that it was compiled for."""
    report = look(BY_NAME[name], lengths=(5, 19), modes=("compiled",))
    assert report.verdict == "clean", str(report)
    assert any(line.startswith("compiled") for line in report.covered)


def test_audit_of_a_specimen_is_the_same_twice():
    """A report that changes from run to run cannot be cited in an issue."""
    specimen = BY_NAME["future peek"]
    one, two = (look(specimen, **quick(specimen)) for _ in range(2))
    assert one.findings == two.findings
    assert one.covered == two.covered


def test_audit_says_that_a_model_without_a_cache_was_not_run_with_one():
    """Silence about stages would read as "stages agree"."""
    specimen = BY_NAME["running mean"]
    report = look(specimen, lengths=(5, 9))
    assert any("stages" in what for what, _ in report.not_covered)


def test_audit_of_a_fault_fails_when_the_finding_is_removed():
    """The judge itself: `wrong` must not pass a report that found nothing, or the wrong module."""
    specimen, clean = BY_NAME["future peek"], BY_NAME["rotary"]
    found = look(specimen, **quick(specimen))
    nothing = look(clean, lengths=(5,), modes=("map",))
    assert wrong(specimen, nothing).startswith("missed")
    assert wrong(clean, found).startswith("false alarm")
    elsewhere = type(specimen)(name="x", model=specimen.model, kind="leak", module="blocks.0.mix")
    assert wrong(elsewhere, found).startswith("module")
