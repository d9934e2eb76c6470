"""Requests served together say what each says alone, whenever they came and whatever they share."""

import pytest
import torch

from hitherto.cache import Paged
from hitherto.errors import ModelError
from hitherto.generation import Request, Sampling, Serving, generate
from model.families import FAMILIES, drawn

PROMPTS = ([1, 2, 3, 4, 5, 6, 7, 8, 9], [10], [11, 12, 13, 14], [1, 2, 3, 4, 5, 6, 7, 20])


def alone(model, number: int, count: int) -> list[int]:
    sampling = Sampling(temperature=0.9, seed=5 + number)
    return [p.token for p in generate(model, [PROMPTS[number]], sampling, max_tokens=count)]


def request(number: int, count: int) -> Request:
    return Request(
        prompt=PROMPTS[number], sampling=Sampling(temperature=0.9, seed=5), max_tokens=count
    )


@pytest.mark.parametrize(
    "options",
    [
        {}, {"slots": 2}, {"chunk": 3}, {"pages": 60, "page_size": 2}, {"chunk": 1, "slots": 1},
        {"pages": 11, "page_size": 2}, {"pages": 60, "page_size": 3, "chunk": 2, "slots": 3},
    ],
)  # fmt: skip
@pytest.mark.parametrize("family", FAMILIES)
def test_serving_gives_each_request_the_text_it_has_alone(family, options):
    """Would catch a token of one sequence in another's cache, a page shared too far, a request
    forgotten while it waits."""
    model = drawn(FAMILIES[family])
    serving, texts = Serving(model, **options), {}
    for step in range(300):
        if step in (0, 1, 4, 5):
            number = serving.add(request(len(texts), 9))
            texts[number] = []
        for piece in serving.step():
            texts[piece.sequence].append(piece.token)
        if step > 5 and serving.is_idle:
            break
    assert texts == {number: alone(model, number, 9) for number in range(4)}


def test_serving_reads_a_long_prompt_while_others_write():
    """Would catch a prompt that is read in one go and keeps everybody waiting."""
    model = drawn(FAMILIES["llama"])
    serving, seen = Serving(model, chunk=4), []
    model.stack.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[1]))
    serving.add(Request(prompt=[1], max_tokens=20))
    assert len(serving.step()) == 1
    serving.add(Request(prompt=list(range(11)), max_tokens=2))
    assert [len(serving.step()) for _ in range(4)] == [1, 1, 2, 2]
    assert seen == [1, 5, 5, 4, 2]


def test_serving_reads_a_shared_beginning_once():
    model = drawn(FAMILIES["llama"])
    serving, seen = Serving(model, pages=40, page_size=2), []
    model.stack.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[1]))
    serving.add(request(0, 3))
    serving.step()
    serving.add(request(3, 3))
    serving.step()
    assert seen == [9, 1 + 2]
    serving.add(request(0, 3))
    serving.step()
    assert seen[2] == 1 + 1 + 1


def test_serving_gives_pages_back_and_forgets_beginnings_when_it_must():
    model = drawn(FAMILIES["llama"])
    serving = Serving(model, pages=7, page_size=2)
    for number in (0, 2, 3):
        serving.add(request(number, 5))
    while not serving.is_idle:
        serving.step()
        assert all(0 <= pool.free <= 7 for pool in serving.prefixes.pools)
    while serving.prefixes.drop_oldest():
        pass
    assert [pool.free for pool in serving.prefixes.pools] == [7, 7]


def test_serving_can_cancel():
    model = drawn(FAMILIES["llama"])
    serving = Serving(model, pages=40, slots=1)
    first, second, third = (serving.add(request(number, 5)) for number in range(3))
    serving.step()
    serving.cancel(first)
    serving.cancel(second)
    pieces = [piece for _ in range(5) for piece in serving.step()]
    assert {piece.sequence for piece in pieces} == {third}
    assert serving.is_idle
    assert all(isinstance(layer, Paged) for layer in serving.prefixes.fork([1, 2]))


def test_serving_refuses_what_can_never_fit():
    model = drawn(FAMILIES["llama"])
    with pytest.raises(ModelError, match="pages must hold 13 positions of one request"):
        Serving(model, pages=6, page_size=2).add(request(0, 5))
    with pytest.raises(ModelError, match="slots must be >= 1"):
        Serving(model, slots=0)
    with pytest.raises(ModelError, match="max_tokens must be >= 1"):
        Serving(model).add(Request(prompt=[1], max_tokens=0))
    assert Serving(model).step() == []


def test_serving_window_layers_keep_only_their_window():
    """A cache that grows with the text on a layer that cannot look back that far."""
    model = drawn(FAMILIES["gemma3"], max_length=None)
    serving = Serving(model, chunk=8)
    serving.add(Request(prompt=[1] * 200, max_tokens=300))
    for _ in range(100):
        serving.step()
    (_, cache) = serving._running[0]
    near, full = cache[0].nbytes, cache[1].nbytes
    assert near * 4 < full
    assert serving.nbytes == sum(layer.nbytes for layer in cache)
    assert torch.is_tensor(cache[0].view()[0])
