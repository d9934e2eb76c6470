"""The loop: learning, resuming to the same bits, saving what is whole."""

import math
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hitherto.errors import ModelError
from hitherto.training import evaluate, exists, load, pack, train
from hitherto.training.interrupts import held_interrupts
from hitherto.training.optimizer import adamw
from hitherto.training.trainer import backward
from training.small import TEXT, model, run


def losses(*arguments: object, **options: object) -> list[float]:
    return [step.loss for step in train(*arguments, **options)]


def test_training_learns_a_text():
    trained = model()
    steps = list(train(trained, TEXT, run(steps=80, batch=8)))
    # First logits are about standard normal: half a nat worse than knowing nothing.
    assert steps[0].loss == pytest.approx(math.log(256) + 0.5, abs=0.2)
    assert steps[-1].loss < 2.5
    assert [s.step for s in steps] == list(range(1, 81))
    assert steps[-1].tokens == 80 * 8 * 16
    assert steps[-1].progress == 1


def test_training_resumed_gives_the_same_bits(tmp_path):
    """Would catch a lost moment, a batch drawn again, a schedule that starts anew."""
    whole, ends = losses(first := model(), TEXT, run()), model()
    with closing(train(ends, TEXT, run(), tmp_path / "c")) as steps:
        start = [next(steps).loss for _ in range(3)]
    resumed = model(seed=9)
    rest = losses(resumed, TEXT, run(), tmp_path / "c", resume=True)
    assert start + rest == whole
    for name, weight in first.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], weight)


PROGRAM = """
import sys; sys.path[:0] = sys.argv[2:]
from contextlib import closing
from training.small import TEXT, model, run
from hitherto.training import train
with closing(train(model(), TEXT, run(steps=10_000, save_every_s=1e-9), sys.argv[1])) as steps:
    for step in steps:
        print(step.step, step.loss, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_training_killed_at_any_moment_resumes_to_the_same_bits(tmp_path, number):
    """It saves after every step, so the signal lands in a save more often than not."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", PROGRAM, tmp_path / "c", tests, tests.parent / "src"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen(list(map(str, command)), **quiet)
    printed = [process.stdout.readline() for _ in range(8)]
    process.send_signal(number)
    printed += process.communicate()[0].splitlines(keepends=True)
    assert exists(tmp_path / "c")
    _, state = load(tmp_path / "c")
    assert len(printed) - 1 <= state.step + (number == signal.SIGKILL)
    if number == signal.SIGINT:
        assert state.step >= len(printed)
    config = run(steps=10_000)
    with closing(train(model(5), TEXT, config, tmp_path / "c", resume=True)) as steps:
        resumed = [next(steps).loss for _ in range(2)]
    with closing(train(model(), TEXT, config)) as steps:
        whole = [next(steps).loss for _ in range(state.step + 2)]
    assert resumed == whole[-2:]
    assert [float(line.split()[1]) for line in printed] == whole[: len(printed)]


def test_training_by_seconds_ends_in_time_and_goes_on(tmp_path):
    began = time.monotonic()
    *_, last = train(model(), TEXT, run(steps=None, seconds=0.3), tmp_path / "c")
    assert 0.3 <= last.elapsed <= time.monotonic() - began
    assert (
        list(train(model(), TEXT, run(steps=None, seconds=0.3), tmp_path / "c", resume=True)) == []
    )
    more = list(train(model(), TEXT, run(steps=None, seconds=0.5), tmp_path / "c", resume=True))
    assert more[0].step == last.step + 1
    assert more[0].elapsed > last.elapsed


def test_training_refuses_to_resume_what_does_not_fit(tmp_path):
    with pytest.raises(ModelError, match="needs a directory"):
        train(model(), TEXT, run(), resume=True)
    with pytest.raises(ModelError, match="must be a folder that `save` wrote"):
        train(model(), TEXT, run(), tmp_path / "c", resume=True)
    list(train(model(), TEXT, run(), tmp_path / "c"))
    for data, config, message in (
        (TEXT + b"!", run(), "resume: data"),
        (TEXT, run(lr=1e-3), "resume: TrainingConfig.lr must be as in the checkpoint, 0.01"),
    ):
        with pytest.raises(ModelError, match=message):
            train(model(), data, config, tmp_path / "c", resume=True)


def test_training_stops_before_a_loss_that_is_no_number_spoils_the_weights(tmp_path):
    broken = model()
    with torch.no_grad():
        broken.stack.norm.weight.fill_(math.nan)
    with pytest.raises(ModelError, match="loss must be finite; got nan at step 1"):
        list(train(broken, TEXT, run(), tmp_path / "c"))
    assert not (tmp_path / "c").exists()


def test_training_accumulates_the_mean_of_its_batches():
    """Would catch a sum in place of a mean, or the same batch twice."""
    one, two, both = model(), model(), model()
    source = pack([TEXT[i : i + 17] for i in range(0, 340, 17)], context=16)
    gradients = []
    for each, step in ((one, 0), (two, 1)):
        backward(each, source, run(), step)
        gradients.append([p.grad for p in each.parameters()])
    backward(both, source, run(accumulate=2), 0)
    for parameter, first, second in zip(both.parameters(), *gradients, strict=True):
        torch.testing.assert_close(parameter.grad, (first + second) / 2)


def test_training_on_packed_documents_learns_them():
    documents = [TEXT[i : i + 30] for i in range(0, 3000, 30)]
    history = losses(model(), pack(documents, context=63), run(steps=40, context=63, batch=8))
    assert history[-1] < 3.0
    with pytest.raises(ModelError, match="must be that of the packed rows, 63"):
        train(model(), pack(documents, context=63), run())


def test_adamw_decays_matrices_only():
    decayed, kept = adamw(model(), run()).param_groups
    assert decayed["weight_decay"] == 0.1
    assert {p.ndim for p in decayed["params"]} == {2}
    assert kept["weight_decay"] == 0
    assert {p.ndim for p in kept["params"]} == {1}
    assert len(decayed["params"]) + len(kept["params"]) == len(list(model().parameters()))


def test_learning_rate_rises_then_falls():
    config = run(lr=1.0, warmup=0.1, lr_end=0.2)
    rates = [config.learning_rate(p / 100) for p in range(101)]
    assert rates.index(max(rates)) == 10
    assert rates[10] == 1
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[55] == pytest.approx(0.6)
    assert rates[100] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": None}, "or seconds must be given, not both"),
        ({"seconds": 1.0}, "or seconds must be given, not both"),
        ({"steps": 0}, "TrainingConfig.steps must be > 0"),
        ({"lr": "fast"}, "TrainingConfig.lr must be float"),
        ({"warmup": 1.0}, "from 0 to below 1"),
    ],
)
def test_training_config_says_which_setting_is_wrong(changes, message):
    with pytest.raises(ModelError, match=message):
        run(**changes)


def test_held_interrupts_come_after_the_block():
    """Would catch a Ctrl-C that stops the optimizer between two weights."""
    done = []

    def hold() -> None:
        with held_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        hold()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("length", [2, 9, 16, 17, 18, 40, 333])
def test_evaluate_predicts_every_byte_once(length):
    """Would catch a window that counts a byte twice or leaves one out."""
    judged, text = model().double(), TEXT[:length]
    ids = torch.tensor([list(text)])
    total, context = 0.0, 16
    with torch.no_grad():
        for end in range(1, length):
            covers = context
            while covers < end:
                covers = min(covers + context // 2, length - 1)
            start = max(min(covers, length - 1) - context, 0)
            logits = judged(ids[:, start:end])[0, -1]
            total -= logits.log_softmax(-1)[text[end]].item()
    assert evaluate(judged, text, context=context, batch=3) == pytest.approx(total / (length - 1))


def test_evaluate_refuses_nothing_to_predict():
    with pytest.raises(ModelError, match="2 bytes"):
        evaluate(model(), b"x")


def test_step_is_a_value():
    (step,) = train(model(), TEXT, run(steps=1))
    assert replace(step, loss=1.0).loss == 1.0
