import warnings

import pytest
import torch
from torch import nn

from audit.models import VOCAB, Attention, Pooled, model
from hitherto.audit import Guard, LeakError, LeakWarning
from hitherto.errors import ModelError


def batch(seed=0):
    return torch.randint(0, VOCAB, (4, 12), generator=torch.Generator().manual_seed(seed))


def test_guard_names_the_module_that_sees_the_future():
    leaky = model(Attention, Pooled)
    with Guard(leaky), pytest.raises(LeakError, match=r"mixers\.1 \(Pooled\)"):
        leaky(batch())


def test_guard_lets_a_clean_model_train():
    clean = model(lambda: nn.Sequential(Attention(), nn.Dropout(0.5))).train()
    optimizer = torch.optim.SGD(clean.parameters(), 0.1)
    with Guard(clean, every=2) as guard:
        for step in range(5):
            clean(batch(step)).sum().backward()
            optimizer.step()
    assert guard.checks == 3
    clean(batch())
    assert guard.checks == 3


def test_guard_changes_nothing_of_a_run():
    """Same weights, gradients, buffers and random numbers with and without."""

    def run(watched):
        torch.manual_seed(0)
        trained = nn.Sequential(nn.Embedding(VOCAB, 8), nn.Dropout(0.3), Norm()).train()
        guard = Guard(trained, every=1, action="warn") if watched else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeakWarning)
            out = trained(batch())
        out.sum().backward()
        grads = [p.grad.clone() for p in trained.parameters()]
        assert guard is None or guard.checks == 1
        return [out.detach(), *grads, *trained.buffers(), torch.rand(3)]

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.BatchNorm1d(8)

        def forward(self, x):
            return self.inner(x.transpose(1, 2)).transpose(1, 2)

    assert all(torch.equal(a, b) for a, b in zip(run(False), run(True), strict=True))


def test_guard_warns_where_asked():
    leaky = model(Pooled)
    with Guard(leaky, action="warn"), pytest.warns(LeakWarning, match="Pooled"):
        leaky(batch())


def test_guard_is_silent_without_gradients():
    leaky = model(Pooled)
    with Guard(leaky) as guard, torch.no_grad():
        leaky(batch())
    assert guard.checks == 0


def test_guard_says_why_it_skipped():
    with Guard(nn.Linear(3, 3)) as guard:
        guard.model(torch.zeros(3))
    assert "positions" in guard.skipped


def test_guard_refuses_what_it_cannot_do():
    with pytest.raises(ModelError, match="every=100"):
        Guard(model(), every=0)
