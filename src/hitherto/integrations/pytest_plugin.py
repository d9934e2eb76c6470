"""pytest: assert that a model obeys its mask; the message of a failure is the finding.

    from hitherto.integrations.pytest_plugin import assert_causal, assert_obeys

    def test_model_is_causal():
        assert_causal(Model(), vocab=256)

    @pytest.mark.full_audit          # runs only with `pytest --full-audit`
    def test_model_keeps_its_window_in_every_mode():
        assert_obeys(Model(), Window(width=64), vocab=256, modes="all", full=True)

pytest loads this module in every session once hitherto is installed, so nothing heavy is imported
before a test asks for it.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hitherto.audit.audit import Masks
    from hitherto.audit.report import Report

MARKER = "full_audit: a slow audit of every mode and length; runs only with --full-audit"


def assert_causal(model: Any, **options: Any) -> "Report":
    """Fail unless no output of the model depends on a later input.

    Args:
        model: as for `audit`: a torch module, a function of one numpy array, or a Subject.
        options: the rest of `audit`'s arguments, e.g. `vocab=256` or `lengths=(64, 257)`.

    Returns:
        The report, for what a test wants to say beyond this.

    Raises:
        AssertionError: with every finding, or with what kept the audit from a verdict.
        ModelError: when the arguments do not say what to run.
    """
    __tracebackhide__ = True
    from hitherto.mask import Causal

    return assert_obeys(model, Causal(), **options)


def assert_obeys(model: Any, mask: "Masks", **options: Any) -> "Report":
    """Fail unless the model sees what the mask shows, all of it, and nothing else.

    Args:
        model: as for `audit`: a torch module, a function of one numpy array, or a Subject.
        mask: what the model declares: a mask, one a layer, or a dict of "self", "cross" and
            "encoder".
        options: the rest of `audit`'s arguments, e.g. `vocab=256` or `modes="all"`.

    Returns:
        The report.

    Raises:
        AssertionError: with every finding, or with what kept the audit from a verdict.
        ModelError: when the arguments do not say what to run.
        MaskError: when `mask` is no mask, or does not fit the lengths.
    """
    __tracebackhide__ = True
    from hitherto.audit import audit

    report = audit(model, mask, **options)
    if not report.clean:
        raise AssertionError(message(report))
    return report


def message(report: "Report") -> str:
    """Spell why a report is not clean: its findings, or what could not be decided."""
    head = f"{report.subject} does not obey {report.declared}"
    if report.findings:
        return "\n".join([f"{head}:", *(str(finding) for finding in report.findings)])
    why = [f"  {what}: {reason}" for what, reason in report.not_covered]
    return "\n".join([f"{report.subject} could not be judged by {report.declared}:", *why])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full-audit`."""
    parser.getgroup("hitherto").addoption(
        "--full-audit", action="store_true", help="run the tests marked full_audit too"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip full audits unless they were asked for."""
    if config.getoption("--full-audit"):
        return
    skip = pytest.mark.skip(reason="a full audit; run it with --full-audit")
    for item in items:
        if item.get_closest_marker("full_audit"):
            item.add_marker(skip)
