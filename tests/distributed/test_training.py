"""Training over ranks: the losses of one process, checkpoints for any number of ranks."""

import numpy as np
import pytest
import torch

from distributed import learning
from distributed.ranks import on_ranks
from hitherto.distributed import checkpoint
from hitherto.errors import ModelError

ROUNDING = 1e-13


def several(rank, ranks, calls):
    """Run several of `learning` in one group, so that starting it is paid once."""
    return [getattr(learning, name)(rank, ranks, *args) for name, *args in calls]


@pytest.mark.parametrize(("ranks", "context"), [(2, 2), pytest.param(4, 2, marks=pytest.mark.slow)])
def test_losses_are_those_of_one_process(ranks, context, tmp_path):
    """Labels counted by rank, gradients averaged twice or not at all, a batch drawn twice."""
    ways = [(packed, weights) for packed in (False, True) for weights in ("replicated", "sharded")]
    calls = [("losses", context, *way, 3) for way in ways]
    answers = on_ranks(several, ranks, tmp_path, calls)
    for i, (packed, _) in enumerate(ways):
        expected = learning.alone(packed, 3)
        for answer in answers:
            np.testing.assert_allclose(answer[i], expected, rtol=ROUNDING)


@pytest.mark.slow
def test_accumulated_batches_give_the_losses_of_one_process(tmp_path):
    """Gradients of the first batch, added up over ranks twice."""

    expected = learning.alone(True, 2, accumulate=2)
    found = on_ranks(accumulated, 2, tmp_path)
    np.testing.assert_allclose(found[0], expected, rtol=ROUNDING)


def accumulated(rank, ranks):
    return learning.losses(rank, ranks, 1, True, "replicated", 2, accumulate=2)


@pytest.mark.parametrize("weights", ["sharded", pytest.param("replicated", marks=pytest.mark.slow)])
def test_checkpoint_goes_on_at_another_number_of_ranks(weights, tmp_path):
    """Moments lost, weights cut for two ranks only, a stop that only one rank hears of."""
    folder = tmp_path / "run"
    before = on_ranks(learning.stopped, 2, tmp_path, 2, weights, folder, 2)
    assert [len(losses) for losses in before] == [2, 2]
    model, state = checkpoint.load(folder)
    assert state.step == 2
    assert next(model.parameters()).dtype == torch.float64
    assert model.num_parameters == learning.model().num_parameters
    after = on_ranks(learning.losses, 3, tmp_path, 3, False, "sharded", 4, folder, True)
    np.testing.assert_allclose(before[0] + after[0], learning.alone(False, 4), rtol=ROUNDING)
    assert sorted(path.name for path in folder.iterdir()) == ["latest.json", "step-00000004"]


def test_checkpoint_refuses_what_is_none(tmp_path):
    with pytest.raises(ModelError, match=r"latest\.json"):
        checkpoint.load(tmp_path)
    (tmp_path / "latest.json").write_text('{"folder": "step-00000001"}')
    with pytest.raises(ModelError, match="checkpoint"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("how", ["dies", pytest.param("stalls", marks=pytest.mark.slow)])
def test_run_that_loses_a_rank_ends_by_name_and_its_checkpoint_loads(how, tmp_path):
    """A run that hangs for half an hour, or ends in a stack of a foreign library."""
    folder = tmp_path / "run"
    found = on_ranks(learning.loses_a_rank, 2, tmp_path, folder, how, patience_s=6)
    name, message, seconds = found[0]
    assert name == "RankLost"
    assert "needs every rank to answer in time" in message
    assert seconds < 60
    _, state = checkpoint.load(folder)
    assert state.step >= 2


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_model_over_ranks_gives_the_logits_and_gradients_of_one_process(ranks, tmp_path):
    """Positions counted from a rank's first token; documents that see one another."""
    ways = [("rotary", False), ("rotary", True), ("learned", False), ("relative", True)]
    answers = on_ranks(several, ranks, tmp_path, [("scores", *way) for way in ways])
    for i, way in enumerate(ways):
        logits, gradients = learning.scores_alone(*way)
        for answer in answers:
            np.testing.assert_allclose(answer[i][0], logits, atol=1e-12)
            for ours, theirs in zip(answer[i][1], gradients, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-11 * max(abs(theirs).max(), 1))


def test_model_over_ranks_passes_the_audit(tmp_path):
    """A rank that sees ahead, or does not see the keys of another."""
    for verdict, report in on_ranks(learning.audited, 2, tmp_path):
        assert verdict == "clean", report
