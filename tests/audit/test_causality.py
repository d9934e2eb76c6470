"""Every probe meets models it must catch and models it must pass."""

import numpy as np
import pytest

from audit import leaky
from hitherto.audit import Pair, causality
from hitherto.errors import ModelError

TOKENS = np.random.default_rng(0).integers(0, leaky.VOCAB, (2, 23))


@pytest.mark.parametrize("model", [leaky.clean, leaky.clean_window])
@pytest.mark.parametrize("cuts", [None, 5])
def test_causality_passes_a_clean_model(model, cuts):
    """Catches a probe that cries wolf."""
    report = causality(model, TOKENS, vocab=leaky.VOCAB, cuts=cuts)
    assert report.clean
    assert (report.largest, report.worst) == (0.0, None)


@pytest.mark.parametrize(
    "model", [leaky.future_peek, leaky.shifted_window, leaky.mean_over_time, leaky.peek_at_the_last]
)
@pytest.mark.parametrize("cuts", [None, 5])
def test_causality_catches_a_model_that_sees_the_future(model, cuts):
    """Catches a probe that misses a leak, even one that touches a single pair."""
    report = causality(model, TOKENS, vocab=leaky.VOCAB, cuts=cuts)
    assert report.verdict == "leak"
    assert report.largest > 0
    assert report.worst.key > report.worst.query


def test_causality_names_the_pair_of_a_lone_leak():
    """Catches a witness that is only near the leak: one pair leaks, and it is that one."""
    report = causality(leaky.peek_at_the_last, TOKENS, vocab=leaky.VOCAB)
    assert report.worst == Pair(query=0, key=TOKENS.shape[1] - 1)


def test_causality_calls_a_model_with_a_memory_unstable():
    """Catches taking the drift of a stateful model for a leak, or for nothing."""
    report = causality(leaky.StatefulSecondCall(), TOKENS, vocab=leaky.VOCAB)
    assert report.verdict == "unstable"
    assert not report.clean


def test_causality_changes_every_later_token():
    """Catches replacements that can equal the token they replace, and so change nothing."""
    seen = []

    def model(tokens):
        seen.append(tokens.copy())
        return leaky.clean(tokens)

    tokens = TOKENS % 2
    causality(model, tokens, vocab=2)
    for changed, cut in zip(seen[2:], range(1, tokens.shape[1]), strict=True):
        assert (changed[:, cut:] != tokens[:, cut:]).all()
        assert (changed[:, :cut] == tokens[:, :cut]).all()


def test_causality_counts_nan_as_equal_only_to_nan():
    """Catches `nan != nan` read as a leak, and a leak that turns a number into NaN read as none."""

    def nan_everywhere(tokens):
        return leaky.clean(tokens) * np.nan

    def nan_when_the_last_is_even(tokens):
        return leaky.clean(tokens) * np.where(tokens[:, -1:, None] % 2, 1.0, np.nan)

    tokens = TOKENS | 1
    assert causality(nan_everywhere, tokens, vocab=leaky.VOCAB).clean
    leak = causality(nan_when_the_last_is_even, tokens, vocab=leaky.VOCAB)
    assert (leak.verdict, leak.largest) == ("leak", np.inf)


def test_causality_gives_torch_models_tensors_and_reads_bfloat16_exactly():
    """Catches numpy arrays handed to a torch model, and logits read through a lossy cast."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    table = torch.randn(leaky.VOCAB, 5, dtype=torch.bfloat16, generator=torch.manual_seed(0))

    def clean(tokens):
        return table[tokens].cumsum(1)

    def leak(tokens):
        return table[tokens].flip(1).cumsum(1).flip(1)

    tokens = torch.from_numpy(TOKENS)
    assert causality(clean, tokens, vocab=leaky.VOCAB).clean
    assert causality(leak, tokens, vocab=leaky.VOCAB).verdict == "leak"


@pytest.mark.parametrize(
    ("tokens", "vocab", "cuts", "match"),
    [
        (TOKENS[0], leaky.VOCAB, None, "batch axis"),
        (TOKENS[:, :1], leaky.VOCAB, None, "2 positions"),
        (TOKENS / 2, leaky.VOCAB, None, "must be ints"),
        (TOKENS, 1, None, "2 or more"),
        (TOKENS, 5, None, "above every token"),
        (TOKENS, leaky.VOCAB, 0, "1 or more"),
    ],
)
def test_causality_explains_bad_input(tokens, vocab, cuts, match):
    with pytest.raises(ModelError, match=match):
        causality(leaky.clean, tokens, vocab=vocab, cuts=cuts)


def test_causality_explains_outputs_of_another_shape():
    """Catches a model that returns the last position only, which would pass by broadcasting."""
    with pytest.raises(ModelError, match="every position"):
        causality(lambda t: leaky.clean(t)[:, -1:], TOKENS, vocab=leaky.VOCAB)
