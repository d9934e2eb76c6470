import numpy as np
import pytest
import torch
from torch import nn

from audit import models
from audit.models import Attention, Mixer, Pooled, convolution, fft_filter, model
from audit.replayed import replayed
from hitherto.audit import adapt, audit
from hitherto.mask import Causal, Prefix, Segments, Window

PLAIN = {"lengths": (9, 20), "modes": ()}


def only(report):
    assert len(report.findings) == 1, str(report)
    return report.findings[0]


def test_audit_of_a_causal_decoder_is_clean():
    report = audit(model(Attention, Attention))
    assert report.verdict == "clean", str(report)
    assert report.exit_code == 0
    assert (report.measured_map == np.tri(130, dtype=bool)).all()


@pytest.mark.parametrize(
    ("mixer", "cause", "name"),
    [
        (lambda: Attention(lambda q, k: k < 400 + q), "mask dropped", "Attention"),
        (lambda: Attention(lambda q, k: k <= q + 1), "off by one", "Attention"),
        (lambda: Attention(lambda q, k: (k > q) | (q > 18)), "polarity", "Attention"),
        (lambda: Attention(lambda q, k: k // 4 <= q // 4), "sees its whole block", "Attention"),
        (Pooled, "pools or normalises over time", "Pooled"),
        (convolution(1), "convolution reaches ahead", "Conv"),
        (convolution(2), "convolution reaches ahead", "Conv"),
    ],
)
def test_leak_is_found_with_its_cause_and_module(mixer, cause, name):
    """The second module is at fault; a later one that only receives the leak is not named."""
    report = audit(model(Attention, mixer, Attention), lengths=(20,), modes=())
    found = only(report)
    assert (found.kind, found.cause) == ("leak", cause), str(found)
    path = "mixers.1.inner" if name == "Conv" and "inner" in found.module else "mixers.1"
    assert found.module.startswith(path + " (")
    query, key = found.pair
    assert key > query


@pytest.mark.parametrize("mixer", [Attention, convolution(0), lambda: Attention(models.window(3))])
def test_leak_is_not_seen_where_there_is_none(mixer):
    assert audit(model(Attention, mixer), **PLAIN).verdict == "clean"


def test_leak_verdict_at_length_256_costs_six_forwards():
    """The promise of the issue: leak or no leak in six forwards of 16 rows."""
    clean = audit(model(Attention), lengths=(256,), modes=())
    assert clean.verdict == "clean"
    assert clean.forwards <= 6


def test_map_costs_less_than_one_forward_a_position():
    report = audit(model(Attention), lengths=(60,), modes=("map",))
    assert report.measured_map.shape == (60, 60)
    assert report.forwards <= 60


def test_leak_in_a_mean_of_the_sequence_is_found_without_a_module():
    report = audit(lambda x: x - x.mean(1, keepdims=True), width=4, **PLAIN)
    assert only(report).cause == "pools or normalises over time"


def test_leak_of_one_millionth_in_float64_is_found():
    """Rivals compare with a tolerance and miss it."""
    small = audit(lambda x: np.cumsum(x, 1) + 1e-6 * x.sum(1, keepdims=True), width=4, **PLAIN)
    assert only(small).kind == "leak"
    assert audit(lambda x: np.cumsum(x, 1), width=4, **PLAIN).verdict == "clean"


def test_leak_of_one_millionth_in_float32_is_found():
    """Below what a float32 tolerance allows; float64 tells it from rounding."""
    leaky = Mixer(lambda x: x.cumsum(1) + 1e-6 * x.sum(1, keepdim=True))
    assert only(audit(model(leaky), **PLAIN)).kind == "leak"


def test_leak_that_is_rounding_is_no_finding():
    """A causal convolution by FFT moves earlier outputs by epsilon: a known false alarm."""
    assert audit(lambda x: fft_filter(x, around=False), width=4, **PLAIN).verdict == "clean"
    assert only(audit(lambda x: fft_filter(x, around=True), width=4, **PLAIN)).kind == "leak"


class TorchFFT(nn.Module):
    def __init__(self, around):
        super().__init__()
        self.around = around

    def forward(self, x):
        size = x.shape[1] if self.around else 2 * x.shape[1]
        taps = 0.7 ** torch.arange(x.shape[1], dtype=torch.float32)
        spectrum = torch.fft.rfft(x.float(), size, 1) * torch.fft.rfft(taps, size)[None, :, None]
        return torch.fft.irfft(spectrum, size, 1)[:, : x.shape[1]].to(x.dtype)


def test_leak_by_fft_in_float32_is_decided_in_float64():
    """The module casts to float32 by itself: the float64 copy must not round there."""
    clean = audit(model(TorchFFT(False)), **PLAIN)
    assert clean.verdict == "clean", str(clean)
    assert any("rounding only" in line for line in clean.covered)
    assert only(audit(model(TorchFFT(True)), **PLAIN)).module.startswith("mixers.0")


def test_leak_amid_rounding_is_found():
    """An FFT rounds by 1e-7 while another module leaks 1e-8: float64 sees the second."""
    leaky = Mixer(lambda x: 1e-8 * x.sum(1, keepdim=True).expand_as(x))
    found = only(audit(model(TorchFFT(False), leaky), **PLAIN))
    assert found.module.startswith("mixers.1")


def test_leak_beyond_the_first_chunk_is_found():
    """Outputs of the first 64 positions are clean; lengths must reach beyond."""
    late = Attention(lambda q, k: (k <= q) | ((q >= 64) & (k < q + 3)))
    report = audit(model(late), modes=())
    assert only(report).length == 130


def test_leak_of_short_inputs_only_is_found():
    """Sparse indexers add the mask above their top-k length alone."""
    short = Attention(lambda q, k: (k <= q) | (k.shape[1] < 10))
    assert only(audit(model(short), modes=())).length == 8


def test_leak_through_one_channel_and_a_threshold_is_found():
    """A hard gate on the sequence mean has no gradient, so gradient checks miss it."""
    gate = Mixer(lambda x: x * (x.mean((1, 2), keepdim=True) > 0))
    assert only(audit(model(gate), **PLAIN)).kind == "leak"


def test_leak_of_a_declared_window_is_measured_in_keys():
    report = audit(model(lambda: Attention(models.window(5))), Window(4), lengths=(20,), modes=())
    found = only(report)
    assert found.cause == "window counts more keys"
    assert "5 keys measured, 4 declared" in found.detail


def test_leak_between_documents_needs_the_declared_mask():
    """Legal two-way blocks are no leak; one block seeing the other is."""
    ids = np.repeat([0, 1, 2], (5, 6, 7))
    mask = Causal() & Segments(ids)
    place = torch.as_tensor(ids)
    apart = Attention(lambda q, k: (k <= q) & (place[q] == place[k]))
    assert audit(model(apart), mask, modes=()).verdict == "clean"
    assert only(audit(model(Attention), mask, modes=())).kind == "leak"


def test_leak_within_a_declared_prefix_is_legal():
    two_way = Attention(lambda q, k: (k <= q) | (k < 4))
    assert audit(model(two_way), Causal() | Prefix(4), **PLAIN).verdict == "clean"
    assert only(audit(model(two_way), **PLAIN)).kind == "leak"


def test_leak_reproducer_shows_it_again(tmp_path):
    leaky = model(lambda: Attention(lambda q, k: k <= q + 1))
    found = only(audit(leaky, **PLAIN))
    assert replayed(found, leaky, tmp_path) > 0
    assert replayed(found, model(), tmp_path) == 0


def test_audit_is_the_same_for_the_same_seed():
    one, two = (audit(model(Pooled), **PLAIN, seed=3) for _ in range(2))
    assert one.findings == two.findings
    assert (one.forwards, one.seed) == (two.forwards, 3)


def test_audit_leaves_the_model_as_it_was():
    leaky = model(Pooled)
    leaky.train()
    before = {name: value.clone() for name, value in leaky.state_dict().items()}
    random = torch.random.get_rng_state()
    audit(leaky, lengths=(9,))
    assert leaky.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in leaky.modules())
    assert all(torch.equal(value, before[name]) for name, value in leaky.state_dict().items())
    assert torch.equal(random, torch.random.get_rng_state())


def test_adapt_takes_a_subject_as_it_is():
    subject = adapt(model())
    assert adapt(subject) is subject


def test_leak_through_a_gate_of_one_value_is_found():
    """It opens only if nearly all inputs hold one id: single changes never open it."""

    def gated(ids):
        opened = (ids == 3).mean(1) > 0.7
        return np.cumsum(np.eye(8)[ids], 1) + opened[:, None, None]

    report = audit(gated, vocab=8, lengths=(20,), modes=("map",))
    assert only(report).kind == "leak"
    closed = audit(lambda ids: np.cumsum(np.eye(8)[ids], 1), vocab=8, lengths=(20,), modes=("map",))
    assert closed.verdict == "clean"
