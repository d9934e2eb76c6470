import numpy as np
import pytest
import torch

from audit import models
from audit.models import Attention, Mixer, model
from audit.replayed import replayed
from hitherto.audit import audit
from hitherto.mask import Causal, Chunks, Prefix, Window

MAP = {"lengths": (20,), "modes": ("map",)}


def only(report):
    assert len(report.findings) == 1, str(report)
    return report.findings[0]


def smooth(width):
    """Return a moving sum over the last `width` inputs, in numpy."""
    return lambda x: sum(np.pad(x, ((0, 0), (i, 0), (0, 0)))[:, : x.shape[1]] for i in range(width))


@pytest.mark.parametrize(
    ("width", "kind", "cause"),
    [
        (4, "blind", "window counts fewer keys"),
        (5, None, None),
        (6, "leak", "window counts more keys"),
    ],
)
def test_window_is_measured_to_one_key(width, kind, cause):
    report = audit(smooth(width), Window(5), width=3, **MAP)
    if kind is None:
        assert report.verdict == "clean"
    else:
        assert (only(report).kind, only(report).cause) == (kind, cause)


def test_window_composes_through_the_layers():
    """Two layers of three keys reach five: one layer's mask is not the model's."""
    two = model(*[lambda: Attention(models.window(3))] * 2)
    assert audit(two, Window(3), depth=2, **MAP).verdict == "clean"
    found = only(audit(two, Window(3), depth=1, **MAP))
    assert (found.kind, found.cause) == ("leak", "window counts more keys")
    assert found.pair == (3, 0)
    found = only(audit(two, Window(3), depth=3, **MAP))
    assert (found.kind, found.cause) == ("blind", "window counts fewer keys")


def test_masks_of_single_layers_compose_in_order():
    """A window over chunks reaches into an earlier chunk's start; chunks over a window do not."""
    masks = (Causal() & Chunks(4), Window(3))
    rules = (lambda q, k: (k <= q) & (k // 4 == q // 4), models.window(3))
    two = model(*[lambda rule=rule: Attention(rule) for rule in rules])
    assert audit(two, masks, **MAP).verdict == "clean"
    assert audit(two, masks[::-1], **MAP).verdict == "findings"


def test_prefix_that_is_hidden_is_blind():
    """Sinks that the window forgets: every leak test passes."""
    declared = Causal() & (Window(4) | Prefix(2))
    kept = Attention(lambda q, k: (k <= q) & ((q - k < 4) | (k < 2)))
    assert audit(model(kept), declared, **MAP).verdict == "clean"
    found = only(audit(model(lambda: Attention(models.window(4))), declared, **MAP))
    assert (found.kind, found.cause) == ("blind", "prefix or sinks hidden")


def test_attention_that_adds_nothing_is_blind():
    found = only(audit(model(Mixer(lambda x: 0 * x)), **MAP))
    assert (found.kind, found.cause) == ("blind", "past hidden")


def test_influence_below_rounding_is_not_blind():
    """A recurrence that forgets by a factor of 1e-3 a step moves no bit after six steps, in
    float64 too; its gradient is still there."""

    def forget(x):
        steps = [x[:, :1]]
        for t in range(1, x.shape[1]):
            steps.append(1e-3 * steps[-1] + x[:, t : t + 1])
        return torch.cat(steps, 1)

    report = audit(model(Mixer(forget)), **MAP)
    assert report.verdict == "clean", str(report)
    assert not report.measured_map[19, 0]


def test_blind_reproducer_shows_that_nothing_moves(tmp_path):
    found = only(audit(smooth(4), Window(5), width=3, **MAP))
    assert replayed(found, smooth(4), tmp_path) == 0
    assert replayed(found, smooth(5), tmp_path) > 0
