"""The audit against the zoo: every planted fault found, by kind and module; no false alarm."""

import pytest

from zoo import SPECIMENS
from zoo.verdict import look, quick, wrong

EACH = pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
BY_NAME = {specimen.name: specimen for specimen in SPECIMENS}


@EACH
def test_audit_tells_specimen(specimen):
    """Each specimen is a public bug or a public false alarm; `Specimen.source` links it."""
    assert not wrong(specimen, look(specimen, **quick(specimen)))


@pytest.mark.slow
@EACH
def test_audit_tells_specimen_by_itself(specimen):
    """The same with nothing chosen by hand: the audit picks lengths and modes."""
    assert not wrong(specimen, look(specimen))


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
