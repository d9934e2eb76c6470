"""Audit a specimen, and judge whether the report says of it what is true."""

from typing import Any

from hitherto.audit import Report, audit
from zoo.decoder import CHANNELS, VOCAB
from zoo.specimen import Specimen
from zoo.subject import DOORS, subject

MODES = {
    "train": ("train",),
    "padded": ("padding",),
    "resumed": ("padding",),
    "packed": ("packing",),
    "packed_masked": ("packing",),
    "compiled": ("compiled",),
    "exported": ("exported",),
    "stages": ("stages", "reuse", "poison", "generate"),
    "loss": ("labels",),
    "source": ("cross",),
    "batch": ("batch", "batch 1"),
    "bfloat16": ("bfloat16",),
    "maps": ("maps",),
    "scaled": ("scaled",),
    "again": ("reuse",),
    "truncated": ("truncation",),
    "gradient": ("jacobian",),
    "suffix": (),
}
"""Door of a specimen -> modes of the audit that go through it."""


def quick(specimen: Specimen) -> dict:
    """Options that make an audit short: two lengths, and of a fault only the doors it names.

    A clean twin goes through every door, at lengths beyond all its sizes: a false alarm can come
    from any probe.
    """
    if specimen.kind == "clean":
        return {"lengths": (5, 19)}
    doors = [mode for door in specimen.doors for mode in MODES.get(door, ())]
    lengths = (5, 19) if "stages" in specimen.doors else specimen.lengths
    return {"lengths": lengths, "modes": ("map", "layer", *doors)}


def look(specimen: Specimen, **options) -> Report:
    """Audit a specimen, as the user of such a model would."""
    size = {"width": CHANNELS} if specimen.floats else {"vocab": VOCAB}
    return audit(audited(specimen), specimen.declared, depth=specimen.depth, **size, **options)


def audited(specimen: Specimen) -> Any:
    """Return what is audited: the model where it needs no door, else a subject with its doors."""
    through = {"source", *DOORS} & set(specimen.doors)
    return subject(specimen) if through else specimen.build()


def wrong(specimen: Specimen, report: Report) -> str:
    """Say what is wrong with a report; nothing if it is right."""
    kinds = {finding.kind for finding in report.findings}
    if specimen.kind == "clean":
        if kinds:
            return f"false alarm: {report.findings[0]}"
        allowed = {"clean", *specimen.also}
        return "" if report.verdict in allowed else f"{report.verdict}: {report.not_covered}"
    if "handled" in specimen.also and _said(report):
        return ""
    right = [f for f in report.findings if f.kind in (specimen.kind, *specimen.also)]
    if not right:
        return f"missed: {report.verdict}, {sorted(kinds)}, {report.not_covered}"
    places = {(f.module or "").split(" (")[0] for f in right if f.module}
    if specimen.module and not any(_within(place, specimen.module) for place in places):
        return f"module {sorted(places)} instead of {specimen.module}"
    return ""


def _within(place: str, expected: str) -> bool:
    return place == expected or place.startswith(expected + ".")


def _said(report: Report) -> bool:
    """Whether the report admits that something was not run."""
    return report.verdict != "clean" or bool(report.not_covered)
