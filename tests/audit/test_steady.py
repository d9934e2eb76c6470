"""Models that fail, change, or cannot be run as asked: said so, never a stack trace or "clean"."""

import numpy as np
import pytest
import torch
from torch import nn

from audit.models import VOCAB, Attention, Mixer, model
from hitherto.audit import audit
from hitherto.errors import ModelError

PLAIN = {"lengths": (9, 20), "modes": ()}


def cumulative(x):
    return np.cumsum(x, axis=1)


def causes(report):
    return {(finding.kind, finding.cause) for finding in report.findings}


def test_noise_is_unstable():
    rng = np.random.default_rng(0)
    noisy = audit(lambda x: cumulative(x) + rng.normal(size=x.shape), width=3, **PLAIN)
    assert ("unstable", "outputs change from call to call") in causes(noisy)


def test_noise_of_rounding_is_undecided_without_a_finding():
    """A kernel that adds in any order moves the last bits: no alarm, and not clean either."""
    rng = np.random.default_rng(0)

    def kernel(x):
        return (cumulative(x) * (1 + 1e-7 * rng.random(x.shape))).astype(np.float32)

    report = audit(kernel, width=3, **PLAIN)
    assert (report.verdict, report.findings, report.exit_code) == ("undecided", (), 2)


def test_leak_is_found_in_noise():
    rng = np.random.default_rng(0)

    def leaky(x):
        return cumulative(x) + x.sum(1, keepdims=True) + 1e-6 * rng.normal(size=x.shape)

    assert ("leak", "pools or normalises over time") in causes(audit(leaky, width=3, **PLAIN))


def test_dropout_left_on_is_unstable():
    dropped = model(Mixer(lambda x: nn.functional.dropout(x, 0.5, training=True)))
    report = audit(dropped, lengths=(9,), modes=())
    assert {finding.kind for finding in report.findings} == {"unstable"}


def test_dropout_in_training_is_no_finding():
    with_dropout = model(lambda: nn.Sequential(Attention(), nn.Dropout(0.5)))
    assert audit(with_dropout, lengths=(9,), modes=("train",)).verdict == "clean"


def test_state_kept_between_calls_is_unstable():
    kept = []

    def remembers(x):
        kept.append(1)
        return cumulative(x) + (len(kept) > 3)

    assert ("unstable", "state kept between calls") in causes(audit(remembers, width=3, **PLAIN))


def test_batch_rows_that_mix_are_a_leak():
    class OverBatch(nn.Module):
        def forward(self, x):
            return x - x.mean(0, keepdim=True)

    report = audit(model(Attention, OverBatch), lengths=(9,), modes=())
    (found,) = report.findings
    assert (found.probe, found.cause) == ("batch", "batch rows mix")
    assert found.module == "mixers.1 (OverBatch)"


def test_batch_norm_in_training_is_a_leak_of_training_alone():
    """Its statistics run over batch and time: what is trained so has seen the future."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.BatchNorm1d(8)

        def forward(self, x):
            return self.inner(x.transpose(1, 2)).transpose(1, 2)

    report = audit(model(Norm), lengths=(9,), modes=("train",))
    assert {(f.mode, f.module) for f in report.findings} == {
        ("train", "mixers.0.inner (BatchNorm1d)")
    }


def test_rows_that_share_one_position_mix_too():
    """A scale taken from position 0 of all rows: the changed futures of other rows never show."""
    shared = Mixer(lambda x: x / x[:, :1].abs().amax((0, 2), keepdim=True))
    (found,) = audit(model(shared), lengths=(9,), modes=("batch",)).findings
    assert (found.cause, found.module) == ("batch rows mix", "mixers.0 (Mixer)")
    assert audit(model(), lengths=(9,), modes=("batch",)).verdict == "clean"


def test_outputs_that_depend_on_the_length_are_found_by_truncation():
    """Positions counted from the end keep the shapes and never show under perturbation."""
    from_end = Mixer(lambda x: x * torch.arange(x.shape[1]).flip(0)[:, None])
    report = audit(model(from_end), lengths=(5, 9), modes=("truncation",))
    (found,) = report.findings
    assert (found.cause, found.module) == ("depends on the length", "mixers.0 (Mixer)")
    assert audit(model(), lengths=(5, 9), modes=("truncation",)).verdict == "clean"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_broken(value):
    report = audit(lambda x: np.where(x > 1e9, x, value), width=3, **PLAIN)
    assert causes(report) == {("broken", "not finite")}


def test_outputs_of_minus_infinity_forbid_a_token():
    """Suppressed tokens have logits of -inf by design."""

    def forbids(x):
        out = cumulative(x)
        out[..., 0] = -np.inf
        return out

    assert audit(forbids, width=3, **PLAIN).verdict == "clean"


def test_model_that_always_fails_is_broken():
    def fails(x):
        raise RuntimeError("no kernel")

    report = audit(fails, width=3, **PLAIN)
    assert causes(report) == {("broken", "call fails")}
    assert "no kernel" in str(report)


def test_model_that_fails_at_a_length_between_is_broken():
    def fails(x):
        if x.shape[1] == 16:
            raise RuntimeError("block size")
        return cumulative(x)

    report = audit(fails, width=3, lengths=(9, 16, 20), modes=())
    assert causes(report) == {("broken", "call fails")}


def test_model_with_shortest_and_longest_input_is_clean_between():
    def limited(x):
        if not 9 <= x.shape[1] <= 20:
            raise RuntimeError("too short or long")
        return cumulative(x)

    report = audit(limited, width=3, lengths=(3, 9, 20, 40), modes=())
    assert report.verdict == "clean"
    assert {what for what, _ in report.not_covered} == {"length 3", "length 40"}


def test_model_of_one_row_is_run_one_row_at_a_time():
    def single(x):
        assert len(x) == 1
        return cumulative(x)

    clean = audit(single, width=3, **PLAIN)
    assert clean.verdict == "clean"
    assert "batches of several rows" in dict(clean.not_covered)
    leaky = audit(lambda x: single(x) + x.mean(1, keepdims=True), width=3, **PLAIN)
    assert {finding.kind for finding in leaky.findings} == {"leak"}


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda out: (None, out),
        lambda out: {"past": 3, "logits": out},
        lambda out: type("Output", (), {"logits": out, "loss": None})(),
    ],
)
def test_outputs_in_tuples_dicts_and_objects_are_found(wrapped):
    clean = audit(lambda x: wrapped(cumulative(x)), width=3, **PLAIN)
    assert clean.verdict == "clean"
    leaky = audit(lambda x: wrapped(cumulative(x[:, ::-1])[:, ::-1]), width=3, **PLAIN)
    assert {finding.kind for finding in leaky.findings} == {"leak"}


@pytest.mark.parametrize("axis", [0, 2])
def test_time_axis_is_named_or_found(axis):
    def moved(x):
        return np.cumsum(x, axis=axis)

    options = {} if axis == 2 else {"time_axis": 0}
    width = {"example": np.zeros((2, 3, 11))} if axis == 2 else {"width": 3}
    report = (
        audit(moved, **width, **{"time_axis": axis}, **PLAIN)
        if axis == 2
        else audit(moved, width=3, **options, **PLAIN)
    )
    assert report.verdict == "clean", str(report)


def test_time_axis_of_a_convolution_is_found():
    class Conv(nn.Module):
        def __init__(self, left):
            super().__init__()
            self.inner, self.left = nn.Conv1d(5, 5, 3), left

        def forward(self, x):
            return self.inner(nn.functional.pad(x, (self.left, 2 - self.left)))

    assert audit(Conv(2), width=5, **PLAIN).verdict == "clean"
    (found,) = audit(Conv(1), width=5, **PLAIN).findings
    assert found.cause == "convolution reaches ahead"


def test_vocabulary_of_a_module_is_found():
    assert audit(model(), **PLAIN).verdict == "clean"
    assert audit(model(), vocab=VOCAB, **PLAIN).verdict == "clean"


def test_audit_without_inputs_says_what_to_pass():
    with pytest.raises(ModelError, match="vocab=256"):
        audit(cumulative)
    with pytest.raises(ModelError, match="torch module"):
        audit(3, vocab=4)


def test_model_warnings_are_not_the_callers():
    """Warnings are errors under pytest: a model's own must not become failures of the call."""
    import warnings

    def warns(x):
        warnings.warn("deprecated", stacklevel=1)
        return cumulative(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = audit(warns, width=3, **PLAIN)
    assert report.verdict == "clean"


def test_random_state_of_torch_is_left_alone():
    state = torch.random.get_rng_state()
    audit(model(), lengths=(9,), modes=("train",))
    assert torch.equal(state, torch.random.get_rng_state())
