"""Dates in words to ISO dates by an encoder-decoder: "march the ninth two thousand" -> 2000-03-09.

Trained by teacher forcing with padded sources, decoded greedily with caches, scored on days that
training never saw: `python examples/dates.py` takes a minute and a half.
"""

import random
import time
from datetime import date, timedelta

import torch

from hitherto.model import DecoderConfig, EncoderDecoder, EncoderDecoderConfig
from hitherto.model.byte_tokens import encode
from hitherto.training import TrainingConfig, cross_entropy, teach
from hitherto.training.optimizer import adamw, update

PADDING, START, END = 0, 1, 2
ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
TENS = "ten ten twenty thirty forty fifty sixty seventy eighty ninety".split()
FIRST = dict(one="first", two="second", three="third", five="fifth", eight="eighth", nine="ninth")
FIRST |= dict(twelve="twelfth", twenty="twentieth", thirty="thirtieth")
FORMS = ("the {d} of {m} {y}", "{m} {d}, {y}", "{m} the {d} {y}", "{d} {m} {y}", "on {m} {d} {y}")


def spell(n: int, join: str) -> str:
    return ONES[n] if n < 20 else TENS[n // 10] + (join + ONES[n % 10] if n % 10 else "")


def in_words(day: date, rng: random.Random) -> str:
    *tens, last = spell(day.day, "-").split("-")
    nth = "-".join([*tens, FIRST.get(last, last + "th")])
    century, rest = divmod(day.year, 100)
    year = f"{spell(century, ' ')} {spell(rest, ' ') if rest > 9 else 'oh ' + ONES[rest]}"
    if rest == 0:
        year = "nineteen hundred" if century == 19 else "two thousand"
    elif century == 20 and rng.random() < 0.5:
        year = f"two thousand and {spell(rest, ' ')}"
    return rng.choice(FORMS).format(d=nth, m=f"{day:%B}".lower(), y=year)


def batch(days: list[date], rng: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    words = [encode(in_words(day, rng)) for day in days]
    sources = torch.nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=PADDING)
    return sources, torch.tensor([[START, *day.isoformat().encode(), END] for day in days])


@torch.no_grad()
def translate(model: EncoderDecoder, sources: torch.Tensor) -> list[str]:
    read, cache, written = (
        model.read(sources),
        model.cache(),
        [torch.full((len(sources), 1), START)],
    )
    for _ in range(len("2000-03-09")):
        logits = model.decode(written[-1], read, cache=cache)
        written.append(logits[:, -1:].argmax(dim=-1))
    return [bytes(row).decode(errors="replace") for row in torch.cat(written[1:], dim=1).tolist()]


def main(seconds: float = 90.0, seed: int = 0) -> float:
    rng = random.Random(seed)
    days = [date(1900, 1, 1) + timedelta(n) for n in range(73_049)]
    rng.shuffle(days)
    size = dict(vocab_size=128, width=64, num_layers=2, num_heads=4)
    both_ways = DecoderConfig(**size, layer_masks=("Everything()",))
    config = EncoderDecoderConfig(encoder=both_ways, decoder=DecoderConfig(**size), padding=PADDING)
    model, how = EncoderDecoder(config, seed), TrainingConfig(seconds=seconds, lr=4e-3)
    optimizer, began, step = adamw(model, how), time.monotonic(), 0
    while (progress := how.progress(step, time.monotonic() - began)) < 1:
        sources, targets = batch(rng.choices(days[1000:], k=32), rng)
        inputs, labels = teach(targets, padding=PADDING)
        model.zero_grad()
        loss = cross_entropy(model(sources, inputs), labels)
        loss.backward()
        update(model, optimizer, how.learning_rate(progress), how.clip)
        step += 1
        if step % 100 == 0:
            print(f"{progress:4.0%}  step {step}  loss {loss.item():.4f}", flush=True)
    said = translate(model, batch(days[:1000], rng)[0])
    right = sum(text == day.isoformat() for text, day in zip(said, days[:1000], strict=True)) / 1000
    print(f"exact match on 1000 days never trained on: {right:.1%}")
    return right


if __name__ == "__main__":
    main()
