"""Labels are the next tokens: shifted by one, once."""

import math

import pytest
import torch
from torch.nn import functional as F

from hitherto.training import bits, cross_entropy, teach
from hitherto.training.loss import IGNORED


class Echo:
    """A "model" that knows the tokens `ahead` of each input, and is sure of them."""

    def __init__(self, tokens: torch.Tensor, ahead: int) -> None:
        self.answers = tokens.roll(-ahead, dims=1)

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return 50.0 * F.one_hot(self.answers[:, : inputs.shape[1]], 256).float()


@pytest.mark.parametrize(("ahead", "learns"), [(0, False), (1, True), (2, False)])
def test_labels_are_shifted_by_exactly_one(ahead, learns):
    """Shift 0 rewards copying the input and shift 2 skips a token; both train, both are wrong."""
    tokens = torch.randint(0, 256, (3, 40), generator=torch.manual_seed(0))
    inputs, labels = teach(tokens)
    loss = cross_entropy(Echo(tokens, ahead)(inputs), labels).item()
    assert (loss < 1e-6) == learns


def test_teach_by_hand():
    inputs, labels = teach(torch.tensor([[5, 6, 7, 8]]))
    assert inputs.tolist() == [[5, 6, 7]]
    assert labels.tolist() == [[6, 7, 8]]


def test_teach_does_not_ask_a_document_for_the_next_one():
    tokens = torch.tensor([[5, 6, 7, 8, 9, 0]])
    _, labels = teach(tokens, documents=torch.tensor([[0, 0, 1, 1, 2, -1]]))
    assert labels.tolist() == [[6, IGNORED, 8, IGNORED, IGNORED]]


def test_teach_does_not_ask_for_padding():
    _, labels = teach(torch.tensor([[1, 7, 2, 0, 0]]), padding=0)
    assert labels.tolist() == [[7, 2, IGNORED, IGNORED]]


def test_cross_entropy_by_hand():
    """Uniform over 256 bytes is ln 256 nats and 8 bits; an ignored label counts for nothing."""
    logits, labels = torch.zeros(1, 3, 256), torch.tensor([[3, IGNORED, 250]])
    loss = cross_entropy(logits, labels).item()
    assert loss == pytest.approx(math.log(256))
    assert bits(loss) == pytest.approx(8.0)
    assert cross_entropy(logits, labels, "sum").item() == pytest.approx(2 * math.log(256))
