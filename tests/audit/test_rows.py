"""Pads, packed documents, labels: what stands beside the real tokens of a row."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from audit import models
from audit.models import Attention, model
from hitherto.audit import adapt, audit
from hitherto.mask import Causal, Prefix


class Padded(nn.Module):
    """A model run with pads: `fault` names what it forgets."""

    def __init__(self, fault=""):
        super().__init__()
        self.inner, self.fault = model(), fault

    def forward(self, x):
        return self.inner(x)

    def padded(self, x, real):
        start = 0 if self.fault == "positions" else int(np.argmax(real[0]))
        inner = self.inner
        with torch.no_grad():
            places = (torch.arange(x.shape[1]) - start).clamp(0)
            states = inner.embed(torch.as_tensor(x)) + inner.places(places)
            seen = torch.as_tensor(real[0])
            attention = inner.mixers[0]
            attention.rule = self.rule(seen)
            out = inner.head(states + attention(states).nan_to_num())
            attention.rule = models.causal
        return out.numpy()

    def rule(self, seen):
        match self.fault:
            case "pads":
                return models.causal
            case "mask":
                return lambda q, k: seen[k] & (q > -1)
        return lambda q, k: (k <= q) & seen[k]


def subject_of(whole, door):
    def around(copy):
        plain = adapt(copy)
        return dataclasses.replace(
            plain, **{door: getattr(copy, door)}, rebuild=around, module=copy
        )

    return around(whole)


@pytest.mark.parametrize(
    ("fault", "kind", "cause"),
    [
        ("", None, None),
        ("pads", "leak", "pads are seen"),
        ("positions", "inconsistent", "position ids"),
        ("mask", "leak", "mask dropped"),
    ],
)
def test_padding_is_checked_both_ways(fault, kind, cause):
    report = audit(subject_of(Padded(fault), "padded"), lengths=(9,), modes=("padding",))
    if kind is None:
        assert report.verdict == "clean", str(report)
        assert any("padding" in line for line in report.covered)
    else:
        assert (kind, cause) in {(f.kind, f.cause) for f in report.findings}, str(report)


class Packed(nn.Module):
    """A model run on packed documents: `fault` names what it forgets."""

    def __init__(self, fault=""):
        super().__init__()
        self.inner, self.fault = model(), fault

    def forward(self, x):
        return self.inner(x)

    def packed(self, x, lengths):
        ids = torch.as_tensor(np.stack([np.repeat(np.arange(len(own)), own) for own in lengths]))
        places = torch.arange(x.shape[1]).expand_as(ids)
        if self.fault != "positions":
            starts = np.stack([np.repeat(np.cumsum([0, *own[:-1]]), own) for own in lengths])
            places = places - torch.as_tensor(starts)
        inner, attention = self.inner, self.inner.mixers[0]
        with torch.no_grad():
            states = inner.embed(torch.as_tensor(x)) + inner.places(places)
            if self.fault != "isolation":
                attention.rule = lambda q, k: (k <= q) & (ids[:, :, None] == ids[:, None])
            out = inner.head(states + attention(states))
            attention.rule = models.causal
        return out.numpy()


@pytest.mark.parametrize(
    ("fault", "kind", "cause"),
    [
        ("", None, None),
        ("isolation", "leak", "documents see each other"),
        ("positions", "inconsistent", "position ids"),
    ],
)
def test_packed_documents_are_as_if_alone(fault, kind, cause):
    report = audit(subject_of(Packed(fault), "packed"), lengths=(9,), modes=("packing",))
    if kind is None:
        assert report.verdict == "clean", str(report)
    else:
        (found,) = report.findings
        assert (found.kind, found.cause) == (kind, cause)
        assert found.module is None or "mixers.0" in found.module or "places" in found.module


def test_packed_leak_names_the_attention():
    report = audit(subject_of(Packed("isolation"), "packed"), lengths=(9,), modes=("packing",))
    assert report.findings[0].module == "inner.mixers.0 (Attention)"


def test_packed_documents_of_a_prefix_are_not_compared_alone():
    """A mask that counts from the start of the row means something else in the second slot."""
    two_way = subject_of(Packed("positions"), "packed")
    report = audit(two_way, Causal() | Prefix(3), lengths=(9,), modes=("packing",))
    assert "packed documents against each alone" in dict(report.not_covered)


def cross_entropy(shift, across=False, reduction="mean"):
    """Return a loss over a clean model, shifted so."""
    whole = model()

    def loss(tokens, labels):
        with torch.no_grad():
            out, labels = whole(torch.as_tensor(tokens)), torch.as_tensor(labels)
        if across:
            out, labels = out.flatten(0, 1)[:-1], labels.flatten()[1:]
        else:
            out, labels = out[:, : labels.shape[1] - shift], labels[:, shift:]
        if reduction == "rows":
            each = nn.functional.cross_entropy(
                out.transpose(1, 2), labels, ignore_index=-100, reduction="none"
            )
            return each.sum(1) / (labels != -100).sum(1)
        return nn.functional.cross_entropy(out.flatten(0, -2), labels.flatten(), ignore_index=-100)

    return dataclasses.replace(adapt(whole), loss=loss)


@pytest.mark.parametrize(
    ("subject", "cause"),
    [
        (lambda: cross_entropy(1), None),
        (lambda: cross_entropy(1, reduction="rows"), None),
        (lambda: cross_entropy(0), "labels not shifted"),
        (lambda: cross_entropy(2), "labels shifted twice"),
        (lambda: cross_entropy(1, across=True), "labels shifted across rows"),
        (lambda: dataclasses.replace(cross_entropy(0), shift=0), None),
    ],
)
def test_labels_are_shifted_once(subject, cause):
    report = audit(subject(), lengths=(9,), modes=("labels",))
    assert [f.cause for f in report.findings] == ([] if cause is None else [cause])
    assert {f.kind for f in report.findings} <= {"label"}


def test_losses_of_rows_must_not_mix():
    clean = cross_entropy(1, reduction="rows")
    rolled = dataclasses.replace(
        clean, loss=lambda x, y: clean.loss(x, y) + 1e-3 * np.roll(clean.loss(x, y), 1)
    )
    report = audit(rolled, lengths=(9,), modes=("labels",))
    assert [f.cause for f in report.findings] == ["losses of rows mix"]


def test_labels_must_not_reach_the_outputs():
    subject = adapt(model())
    for leak in (0.0, 1e-6):
        labelled = dataclasses.replace(
            subject, labelled=lambda x, y, leak=leak: subject.run(x) + leak * y[..., None]
        )
        found = audit(labelled, lengths=(9,), modes=("labels",)).findings
        assert [f.cause for f in found] == ["label reaches its own prediction"] * bool(leak)


def test_losses_of_the_reference_are_torchs():
    from hitherto.audit.labels import losses

    rng = np.random.default_rng(0)
    out, labels = rng.normal(size=(2, 5, 7)), rng.integers(0, 7, (2, 5))
    mine = losses(out, labels, 1)[:, 0].mean()
    theirs = nn.functional.cross_entropy(
        torch.tensor(out[:, :-1]).flatten(0, 1), torch.tensor(labels[:, 1:]).flatten()
    )
    assert mine == pytest.approx(float(theirs))


def test_attention_is_left_clean():
    """The models of this file share one attention rule; a fault must not stay behind."""
    assert Attention().rule is models.causal
