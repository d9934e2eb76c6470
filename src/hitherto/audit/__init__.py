"""Measure what a model really sees, and compare it with the mask it declares."""

import sys
import types

from hitherto.audit.adapt import adapt
from hitherto.audit.agreement import agreement, rounding_budget
from hitherto.audit.audit import audit
from hitherto.audit.case import changed
from hitherto.audit.causality import causality
from hitherto.audit.causes import CAUSES
from hitherto.audit.check import Check, Pair
from hitherto.audit.guard import Guard, LeakError, LeakWarning
from hitherto.audit.modes import mode
from hitherto.audit.report import Finding, Report
from hitherto.audit.stages import staged
from hitherto.audit.subject import Source, Stages, Subject

__all__ = [
    "CAUSES",
    "Check",
    "Finding",
    "Guard",
    "LeakError",
    "LeakWarning",
    "Pair",
    "Report",
    "Source",
    "Stages",
    "Subject",
    "adapt",
    "agreement",
    "audit",
    "causality",
    "changed",
    "mode",
    "rounding_budget",
    "staged",
]


class _Package(types.ModuleType):
    """The package and its verb share a name: `from hitherto import audit; audit(model)`."""

    def __call__(self, *args: object, **kwargs: object) -> Report:
        return audit(*args, **kwargs)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _Package
