"""The dates example: its pieces, and in the slow run its bar."""

import importlib.util
import random
from datetime import date
from pathlib import Path

import pytest
import torch

from hitherto.model import DecoderConfig, EncoderDecoder, EncoderDecoderConfig
from hitherto.training import teach

PATH = Path(__file__).parents[2] / "examples" / "dates.py"


@pytest.fixture(scope="module")
def dates():
    spec = importlib.util.spec_from_file_location("dates_example", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("day", "words"),
    [
        (date(1984, 3, 21), "twenty-first march nineteen eighty four"),
        (date(1900, 1, 1), "first january nineteen hundred"),
        (date(1905, 12, 30), "thirtieth december nineteen oh five"),
        (date(2000, 8, 12), "twelfth august two thousand"),
        (date(2017, 5, 19), "nineteenth may twenty seventeen"),
        (date(2017, 5, 19), "nineteenth may two thousand and seventeen"),
        (date(2099, 2, 8), "eighth february twenty ninety nine"),
    ],
)
def test_dates_are_written_as_people_write_them(dates, day, words):
    written = {dates.in_words(day, random.Random(n)) for n in range(200)}
    assert words in written
    assert len(written) == (10 if 2000 < day.year else 5)


def test_dates_differ_in_words_when_they_differ(dates):
    """Would catch a rule that writes two days alike, which no model could tell apart."""
    days = [date(1900, 1, 1).fromordinal(n) for n in range(693_596, 766_645)]
    assert (days[0], days[-1]) == (date(1900, 1, 1), date(2099, 12, 31))
    rng = random.Random(0)
    forms, dates.FORMS = dates.FORMS, dates.FORMS[:1]
    assert len({dates.in_words(day, rng) for day in days}) == len(days)
    dates.FORMS = forms


def test_dates_batches_are_padded_and_taught_by_one_shift(dates):
    sources, targets = dates.batch([date(1984, 3, 21), date(2000, 5, 1)], random.Random(1))
    assert sources.shape[0] == 2
    assert (sources == dates.PADDING).any()
    inputs, labels = teach(targets, padding=dates.PADDING)
    assert bytes(labels[0, :-1].tolist()) == b"1984-03-21"
    assert inputs[0, 0] == dates.START
    assert labels[0, -1] == dates.END


def test_dates_translation_with_caches_equals_one_pass(dates):
    """Greedy decoding, checked by running the whole target again."""
    size = {"vocab_size": 128, "width": 16, "num_layers": 1, "num_heads": 2}
    encoder = DecoderConfig(**size, layer_masks=("Everything()",))
    model = EncoderDecoder(EncoderDecoderConfig(encoder=encoder, decoder=DecoderConfig(**size)))
    sources, _ = dates.batch([date(1984, 3, 21), date(2000, 5, 1)], random.Random(1))
    said = dates.translate(model, sources)
    for row, text in enumerate(said):
        target = torch.tensor([[dates.START, *text.encode()]])
        again = model(sources[row : row + 1], target)[0, :-1].argmax(dim=-1)
        assert bytes(again.tolist()).decode() == text


@pytest.mark.slow
def test_dates_reach_99_percent_within_two_minutes(dates):
    assert dates.main(seconds=100.0) >= 0.99
