"""Measure what a model really sees, and compare it with the mask it declares."""

import sys
import types

from hitherto.audit.adapt import adapt
from hitherto.audit.agreement import agreement, rounding_budget
from hitherto.audit.audit import audit
from hitherto.audit.case import changed, moved
from hitherto.audit.causality import causality
from hitherto.audit.causes import CAUSES
from hitherto.audit.check import Check, Pair
from hitherto.audit.crossing import source_map, state_map
from hitherto.audit.guard import Guard, LeakError, LeakWarning
from hitherto.audit.inside import module_map
from hitherto.audit.jacobian import gradient_map
from hitherto.audit.labels import losses
from hitherto.audit.modes import mode
from hitherto.audit.packing import apart
from hitherto.audit.padding import padded_steps
from hitherto.audit.report import Finding, Report
from hitherto.audit.reuse import filled, poisoned
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
    "apart",
    "audit",
    "causality",
    "changed",
    "filled",
    "gradient_map",
    "losses",
    "mode",
    "module_map",
    "moved",
    "padded_steps",
    "poisoned",
    "rounding_budget",
    "source_map",
    "staged",
    "state_map",
]


class _Package(types.ModuleType):
    """The package and its verb share a name: `from hitherto import audit; audit(model)`."""

    def __call__(self, *args: object, **kwargs: object) -> Report:
        return audit(*args, **kwargs)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _Package
