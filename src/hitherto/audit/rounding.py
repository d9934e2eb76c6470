"""Rounding or fault? Repeat in float64 and see whether the gap shrinks with epsilon.

A gap within `UNITS` of epsilon, in the model's own precision and again in float64, is rounding. A
fault keeps its size. Without a float64 copy, gaps of the first kind stay undecided.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np

from hitherto.audit.case import Case
from hitherto.audit.subject import Array, Subject

UNITS = 512
"""A gap within so many units of epsilon, in both precisions, is rounding."""
UNITS_16 = 16
"""The same for 16-bit floats, whose epsilon is large already."""

SMALL = UNITS * float(np.finfo(np.float64).eps)
"""The largest gap that may be rounding in float64."""


def epsilon(subject: Subject, out: Array) -> float:
    """Epsilon of what the subject computes in: its module's coarsest floats, or its outputs."""
    own = float(np.finfo(out.dtype).eps)
    if subject.module is None:
        return own
    import torch

    kinds = [p.dtype for p in subject.module.parameters() if p.dtype.is_floating_point]
    return max([torch.finfo(kind).eps for kind in kinds], default=own)


def limit(subject: Subject, out: Array) -> float:
    """Return the largest gap that may be rounding, as a part of the outputs' scale."""
    eps = epsilon(subject, out)
    return eps * (UNITS_16 if eps > 1e-4 else UNITS)


def twin(subject: Subject) -> Subject | None:
    """Return the subject in float64, or None where that cannot be made.

    Casts to float32 inside the model are read as casts to float64, so that a norm which computes
    in float32 does not round there.
    """
    if subject.rebuild is None or subject.module is None:
        return None
    try:
        double = subject.rebuild(copy.deepcopy(subject.module).double())
    except Exception:
        return None
    return around(double, wide)


def around(subject: Subject, context: Callable[[], AbstractContextManager]) -> Subject:
    """Return the subject with every call made inside a context."""

    def inside(function):
        def call(*args):
            with context():
                return function(*args)

        return None if function is None else call

    def variant(made):
        return made and (lambda *module: around(made(*module), context))

    names = ("start", "step", "padded", "generate")
    stages = subject.stages and replace(
        subject.stages, **{name: inside(getattr(subject.stages, name)) for name in names}
    )
    names = ("run", "graph", "padded", "packed", "packed_masked", "loss", "labelled")
    calls = {name: inside(getattr(subject, name)) for name in names}
    variants = {name: variant(made) for name, made in subject.variants.items()}
    return replace(
        subject, stages=stages, variants=variants, rebuild=variant(subject.rebuild), **calls
    )


@contextmanager
def wide() -> Iterator[None]:
    """Compute in float64 whatever asks for a float of 32 or 16 bits."""
    import torch
    from torch.overrides import TorchFunctionMode

    narrow = (torch.float32, torch.bfloat16, torch.float16)
    casts = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}

    def widened(value):
        return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value

    class Wide(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func in casts:
                return args[0].double()
            kwargs = {name: widened(value) for name, value in (kwargs or {}).items()}
            if func is torch.finfo:
                return func(*args, **kwargs)
            return func(*(widened(value) for value in args), **kwargs)

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Wide():
            yield
    finally:
        torch.set_default_dtype(before)


def twin_of(case: Case) -> Subject | None:
    """Return the float64 copy of a case's subject, made once."""
    if id(case.subject) not in case.twins:
        case.twins[id(case.subject)] = (case.subject, twin(case.subject))
    return case.twins[id(case.subject)][1]


def in_double(case: Case) -> Case | None:
    """Return the case in float64, where only what exceeds the rounding of float64 counts."""
    double = twin_of(case)
    return double and replace(
        case, subject=double, floor=SMALL, double=True, noisy=False, strict=False, maps={}
    )


def in_own_precision(case: Case) -> Case:
    """Return the case without a float64 copy, where that would run something else, or too long."""
    return replace(case, subject=replace(case.subject, rebuild=None))


def small_enough(case: Case, out: Array, size: float) -> bool:
    """Whether a movement where there should be none may be rounding in this precision."""
    return size <= (0.0 if case.strict else limit(case.subject, out))
