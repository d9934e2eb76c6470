"""The laws of sampling."""

import numpy as np
import pytest

from hitherto.errors import ModelError
from hitherto.generation import Sampling, sample

LOGITS = np.log([0.05, 0.4, 0.1, 0.3, 0.15])


def drawn(
    sampling: Sampling, logits: np.ndarray = LOGITS, history: tuple = (), n: int = 400
) -> list:
    random = sampling.random(0)
    return [sample(logits, history, sampling, random) for _ in range(n)]


def greedy(logits: np.ndarray) -> int:
    return sample(logits, (), Sampling(temperature=0), Sampling().random(0))


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}])
def test_sampling_narrowed_to_one_token_equals_greedy(narrow):
    random = np.random.default_rng(0)
    for _ in range(50):
        logits = random.normal(size=20)
        assert drawn(Sampling(**narrow), logits, n=3) == [greedy(logits)] * 3


def test_greedy_takes_the_first_of_equals():
    assert greedy(np.array([0.0, 2.0, 2.0])) == 1


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({}, {0, 1, 2, 3, 4}),
        ({"top_k": 2}, {1, 3}),
        ({"top_k": 99}, {0, 1, 2, 3, 4}),
        ({"top_p": 0.7}, {1, 3}),
        ({"top_p": 0.71}, {1, 3, 4}),
        ({"top_p": 1.0}, {0, 1, 2, 3, 4}),
        ({"min_p": 0.3}, {1, 3, 4}),
        ({"top_k": 4, "top_p": 0.8, "min_p": 0.5}, {1, 3}),
    ],
)
def test_sampling_draws_from_the_tokens_its_settings_leave(settings, allowed):
    """Probabilities are 0.4, 0.3, 0.15, 0.1, 0.05 in order of likelihood."""
    assert set(drawn(Sampling(**settings))) == allowed


def test_sampling_draws_by_probability():
    counts = np.bincount(drawn(Sampling(seed=5), n=20_000), minlength=5) / 20_000
    np.testing.assert_allclose(counts, np.exp(LOGITS), atol=0.012)
    cold = np.bincount(drawn(Sampling(temperature=0.5), n=20_000), minlength=5) / 20_000
    np.testing.assert_allclose(cold, np.exp(2 * LOGITS) / np.exp(2 * LOGITS).sum(), atol=0.012)


def test_sampling_never_draws_a_token_of_no_probability():
    assert set(drawn(Sampling(), np.array([-np.inf, 0.0, -np.inf, 0.0]))) == {1, 3}


def test_repetition_penalty_by_hand():
    """Seen logits 3, -1 become 1.5, -2 under a penalty of 2; the unseen 2 then wins."""
    logits = np.array([3.0, -1.0, 2.0])
    once = Sampling(temperature=0, repetition_penalty=2.0)
    assert drawn(once, logits, (), n=1) == [0]
    assert drawn(once, logits, (0, 1, 0), n=1) == [2]
    negative = np.array([-1.0, -1.5])
    assert drawn(once, negative, (0,), n=1) == [1]
    assert logits.tolist() == [3.0, -1.0, 2.0]


def test_sampling_seeds_reproduce():
    assert drawn(Sampling(seed=3)) == drawn(Sampling(seed=3))
    assert drawn(Sampling(seed=3)) != drawn(Sampling(seed=4))
    second = Sampling(seed=3).random(1)
    assert [second.random()] == [Sampling(seed=4).random(0).random()]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature must be finite and >= 0"),
        ({"temperature": float("inf")}, "temperature must be finite"),
        ({"top_k": 0}, "top_k must be > 0"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"min_p": 1.5}, "min_p must be above 0 and at most 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be > 0"),
        ({"seed": "a"}, "seed must be int"),
    ],
)
def test_sampling_says_which_setting_is_wrong(settings, message):
    with pytest.raises(ModelError, match=message):
        Sampling(**settings)
