"""Modes that agree to rounding pass; a cache that is wrong by one does not."""

import numpy as np
import pytest

from audit import leaky
from hitherto.audit import agreement, rounding_budget
from hitherto.errors import ModelError

TOKENS = np.random.default_rng(1).integers(0, leaky.VOCAB, (2, 29))
BUDGET = (1e-12, "float64 on both sides")


def test_agreement_passes_a_clean_cache():
    """Catches a probe that cries wolf, and one that leaves out a mode."""
    report = agreement(leaky.clean, leaky.Session, TOKENS, budget=BUDGET)
    assert report.clean
    assert report.largest < 1e-13
    names = [line.split(":")[0] for line in report.covered]
    assert names == [
        "prefill",
        *(f"chunks of {n}" for n in (2, 7, 16)),
        "ragged chunks",
        "decode",
    ]


@pytest.mark.parametrize("start", [leaky.cache_off_by_one, leaky.cache_loses_the_first_key])
def test_agreement_catches_a_cache_that_is_off_by_one(start):
    """Catches a comparison of the first piece only: both faults begin with the second."""
    report = agreement(leaky.clean, start, TOKENS, budget=BUDGET)
    assert report.verdict == "inconsistent"
    assert report.largest > BUDGET[0]
    assert "position" in report.where


def test_agreement_calls_sessions_that_share_a_cache_unstable():
    """Catches a second session that goes on where the first stopped."""
    report = agreement(leaky.clean, leaky.SharedCache(), TOKENS, budget=BUDGET)
    assert report.verdict == "unstable"


def test_agreement_sees_a_fault_in_one_cutting_only():
    """Catches cuts that are listed but not run."""
    clean, faulty = [[], [7, 8]], [[], [7, 8], [3]]

    def start():
        session = leaky.Session()
        return lambda t: session(t) + (t.shape[1] == 26)

    assert agreement(leaky.clean, start, TOKENS, budget=BUDGET, cuts=clean).clean
    report = agreement(leaky.clean, start, TOKENS, budget=BUDGET, cuts=faulty)
    assert report.where.endswith("cut at [3]")


def test_agreement_reports_the_position_of_the_worst_difference():
    """Catches a place that belongs to another cutting or another axis."""

    def start():
        session, at = leaky.Session(), [0]

        def step(tokens):
            at[0] += tokens.shape[1]
            return session(tokens) + 0.5 * (at[0] == 18 and tokens.shape[1] == 1)

        return step

    report = agreement(leaky.clean, start, TOKENS, budget=BUDGET)
    assert (report.verdict, report.where) == ("inconsistent", "position 17, decode")
    assert report.largest == pytest.approx(0.5)


def test_rounding_budget_is_twice_the_error_and_four_last_places():
    """Catches a budget that does not grow with the logits, or forgets the forward's error."""
    exact = np.array([[1.0, -8.0]])
    plain = np.array([[1.0, -8.0 + 2**-10]], dtype=np.float32)
    budget, reason = rounding_budget(plain, exact)
    assert budget == 2 * 2**-10 + 4 * 8 * 2**-23
    assert "float64" in reason


@pytest.mark.parametrize("cuts", [[[0, 3]], [[5, 5]], [[29]], [[4, 2]]])
def test_agreement_explains_cuts_outside_the_tokens(cuts):
    with pytest.raises(ModelError, match="must increase"):
        agreement(leaky.clean, leaky.Session, TOKENS, budget=BUDGET, cuts=cuts)


def test_agreement_explains_a_session_that_returns_too_little():
    """Catches logits of the last token only, which cannot be compared position by position."""

    def start():
        session = leaky.Session()
        return lambda t: session(t)[:, -1:]

    with pytest.raises(ModelError, match="every token of a piece"):
        agreement(leaky.clean, start, TOKENS, budget=BUDGET)


def test_report_is_frozen_and_ready_for_json():
    """Catches a report that a caller can edit, or numpy numbers that json refuses."""
    import json

    report = agreement(leaky.clean, leaky.cache_off_by_one, TOKENS, budget=BUDGET)
    assert json.loads(json.dumps(report.as_dict()))["verdict"] == "inconsistent"
    with pytest.raises(AttributeError):
        report.verdict = "clean"
    assert "budget 1e-12" in str(report)
