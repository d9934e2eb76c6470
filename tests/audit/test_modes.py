import dataclasses

import pytest
import torch
from torch import nn

from audit import models
from audit.models import Attention, model
from audit.replayed import replayed
from hitherto.audit import adapt, audit, mode
from hitherto.mask import Causal, Window


def found_in(report):
    return {(f.kind, f.mode, f.cause) for f in report.findings}


class InTraining(Attention):
    """Forgets its mask whenever it trains, as a layer that drops it with dropout on."""

    def forward(self, x):
        self.rule = (lambda q, k: k <= 400 + q) if self.training else models.causal
        return super().forward(x)


def test_leak_in_training_alone_is_found():
    report = audit(model(InTraining), lengths=(9,), modes=("train",))
    assert found_in(report) == {("leak", "train", "mask dropped")}
    assert audit(model(), lengths=(9,), modes=("train",)).verdict == "clean"


def test_leak_in_16_bits_alone_is_found():
    class InHalf(Attention):
        def forward(self, x):
            half = x.dtype == torch.bfloat16
            self.rule = (lambda q, k: k <= q + 1) if half else models.causal
            return super().forward(x)

    report = audit(model(InHalf), lengths=(9,), modes=("bfloat16",))
    assert found_in(report) == {("leak", "bfloat16", "off by one")}
    assert audit(model(), lengths=(9,), modes=("bfloat16",)).verdict == "clean"


def test_leak_in_a_batch_of_one_alone_is_found():
    class Alone(Attention):
        def forward(self, x):
            self.rule = (lambda q, k: k <= q + 1) if len(x) == 1 else models.causal
            return super().forward(x)

    report = audit(model(Alone), lengths=(9,), modes=("batch 1",))
    assert ("leak", "batch 1", "off by one") in found_in(report)
    assert audit(model(), lengths=(9,), modes=("batch 1",)).verdict == "clean"


def test_finite_fill_leaks_once_scores_are_large():
    """Random weights never reach -100; trained ones do. A fill of -1e9 is out of reach."""
    soft = audit(model(lambda: Attention(fill=-100.0)), lengths=(9,), modes=("scaled",))
    assert found_in(soft) == {("leak", "scaled", "finite mask value")}
    hard = audit(model(lambda: Attention(fill=-1e9)), lengths=(9,), modes=("scaled",))
    assert hard.verdict == "clean"


def test_variant_must_obey_and_agree():
    """An attention backend that drops the mask, or returns other numbers."""

    def with_variant(other):
        subject = adapt(model())
        return dataclasses.replace(subject, variants={"eager": lambda: adapt(other)})

    same = audit(with_variant(model()), lengths=(9,), modes=("eager",))
    assert same.verdict == "clean"
    leaky = model(lambda: Attention(lambda q, k: k <= q + 1))
    assert {"leak", "inconsistent"} == {
        f.kind for f in audit(with_variant(leaky), lengths=(9,), modes=("eager",)).findings
    }
    moved = audit(with_variant(model(seed=1)), lengths=(9,), modes=("eager",))
    assert {f.kind for f in moved.findings} == {"inconsistent"}


class AtExport(Attention):
    """Its mask is written down for ten positions when it is exported."""

    def forward(self, x):
        baked = torch.compiler.is_exporting()
        self.rule = (lambda q, k: k <= q.clamp(max=9)) if baked else models.causal
        return super().forward(x)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", [Attention, AtExport])
def test_export_is_compared_beyond_its_own_length(mixer):
    """An artefact that is right at the length of its export, and at no other, passes every test of
    that length.
    """
    source = model(mixer)
    dim = torch.export.Dim.AUTO
    example = torch.zeros(2, 7, dtype=torch.int64)
    made = torch.export.export(source, (example,), dynamic_shapes={"x": {0: dim, 1: dim}})
    graph = made.module()
    artefact = adapt(lambda ids: graph(torch.as_tensor(ids)).detach().numpy(), vocab=models.VOCAB)
    subject = dataclasses.replace(adapt(source), variants={"exported": lambda: artefact})
    report = audit(subject, lengths=(7, 20), modes=("exported",))
    faults = {(f.kind, f.mode, f.length) for f in report.findings}
    assert faults == ({("inconsistent", "exported", 20)} if mixer is AtExport else set())


def test_mode_of_a_reproducer_runs(tmp_path):
    leaky = model(InTraining)
    (found,) = audit(leaky, lengths=(9,), modes=("train",)).findings
    assert replayed(found, leaky, tmp_path) > 0
    assert mode(adapt(leaky), "eval").name == "Model"


def test_layer_is_measured_where_the_whole_model_cannot_tell():
    """Through two layers a window of 5 hides in the reach of two windows of 4 and more."""
    five = model(*[lambda: Attention(models.window(5))] * 2)
    report = audit(five, Window(4), depth=9, lengths=(20,), modes=("layer",))
    assert {(f.module, f.cause) for f in report.findings} == {
        (f"mixers.{i} (Attention)", "window counts more keys") for i in range(2)
    }
    assert any("a window of 5 keys" in line for line in report.covered)
    clean = audit(five, Window(5), lengths=(20,), modes=("layer",))
    assert clean.verdict == "clean", str(clean)


def test_layer_that_sees_less_is_blind_by_name():
    masks = (Causal(), Window(4))
    short = model(Attention, lambda: Attention(models.window(3)))
    (found,) = audit(short, masks, lengths=(20,), modes=("layer",)).findings
    assert (found.kind, found.module) == ("blind", "mixers.1 (Attention)")
    right = model(Attention, lambda: Attention(models.window(4)))
    assert audit(right, masks, lengths=(20,), modes=("layer",)).verdict == "clean"


def test_jacobian_sees_a_gradient_that_the_forward_hides():
    class Straight(nn.Module):
        """The forward adds nothing, the backward the sum of all positions."""

        def forward(self, x):
            total = x.sum(1, keepdim=True).expand_as(x)
            return x + total - total.detach() - x

    report = audit(model(Straight), lengths=(9,), modes=("jacobian",))
    assert ("leak", "eval", "only the gradient crosses") in found_in(report)
    clean = audit(model(), lengths=(9,), modes=("jacobian",))
    assert clean.verdict == "clean"
    assert any("agrees with the map" in line for line in clean.covered)


def test_jacobian_that_is_not_finite_is_broken():
    """A row without keys: finite forward, NaN backward."""

    class Repaired(Attention):
        def forward(self, x):
            return super().forward(x).nan_to_num(0)

    hides_first = Repaired(lambda q, k: (k <= q) & (q > 0))
    report = audit(model(hides_first), lengths=(9,), modes=("jacobian",))
    assert ("broken", "eval", "gradient not finite") in found_in(report)


def test_jacobian_explains_what_moves_without_a_gradient():
    class Rounded(nn.Module):
        def forward(self, x):
            return (20 * x).round().cumsum(1)

    report = audit(model(Rounded), lengths=(9,), modes=("jacobian",))
    assert report.verdict == "clean"
    assert any("move without a gradient" in line for line in report.covered)
