"""The probes beside the plain forward, in the order in which they run."""

from collections.abc import Callable

from hitherto.audit import (
    blind,
    crossing,
    jacobian,
    labels,
    layers,
    leak,
    modes,
    packing,
    padding,
    reuse,
    stages,
    steady,
    truncation,
)
from hitherto.audit.case import Case
from hitherto.audit.plan import Plan

PROBES: dict[str, Callable[[Case, Plan], None]] = {
    "batch": steady.probe,
    "map": blind.probe,
    "constants": leak.constants,
    "layer": layers.probe,
    "jacobian": jacobian.probe,
    "truncation": truncation.probe,
    "modes": modes.probe,
    "stages": stages.probe,
    "reuse, poison, generate": reuse.probe,
    "padding": padding.probe,
    "packing": packing.probe,
    "labels": labels.probe,
    "cross": crossing.probe,
}
"""Name -> probe; each says in the ledger what it found, covered or could not run."""
