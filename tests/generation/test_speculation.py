"""Guessing ahead changes how fast a text comes, never the text."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hitherto.errors import ModelError
from hitherto.generation import Lookup, Request, Sampling, Speculation, generate
from hitherto.generation.lookup import Draft, look_up
from hitherto.model.tokens import ByteTokens
from model.families import FAMILIES, drawn

GREEDY = Sampling(temperature=0)
PROMPT = [1, 2, 3, 1, 2, 4, 1, 2]


def spoken(model, lookup: Lookup, prompt=PROMPT, **options: object) -> tuple[list[int], object]:
    request = Request(prompt=prompt, sampling=GREEDY, **options)
    found = Speculation(model, request, ByteTokens(), lookup)
    return [piece.token for piece in found], found


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("family", FAMILIES)
def test_speculation_writes_what_greedy_decoding_writes(family, length, branches):
    """Would catch a guess at a wrong position, a branch that sees another, a rejected token that
    stays in the cache."""
    model = drawn(FAMILIES[family])
    greedy = [p.token for p in generate(model, [PROMPT], GREEDY, max_tokens=40)]
    tokens, found = spoken(model, Lookup(length=length, branches=branches), max_tokens=40)
    assert tokens == greedy
    assert found.steps + found.accepted + 1 == 40


def test_speculation_takes_few_steps_where_a_text_goes_round():
    """Would catch drafts that are made and never accepted."""
    tokens, found = spoken(drawn(FAMILIES["gemma3"]), Lookup(length=8), max_tokens=45)
    assert tokens[-20:] == [tokens[-1]] * 20
    assert found.acceptance > 0.9
    assert found.steps < 10


def test_speculation_ends_where_greedy_decoding_ends():
    """A stop string, and the last token allowed, in the middle of right guesses."""
    model = drawn(FAMILIES["llama"])
    for count in range(1, 12):
        greedy = list(generate(model, [PROMPT], GREEDY, max_tokens=count))
        request = Request(prompt=PROMPT, sampling=GREEDY, max_tokens=count)
        assert list(Speculation(model, request, ByteTokens())) == greedy
    stop = [bytes([greedy[6].token])]
    greedy = list(generate(model, [PROMPT], GREEDY, max_tokens=40, stop=stop))
    request = Request(prompt=PROMPT, sampling=GREEDY, max_tokens=40, stop=stop)
    assert list(Speculation(model, request, ByteTokens())) == greedy


def test_speculation_with_a_repetition_penalty_is_greedy_decoding_with_it():
    model = drawn(FAMILIES["llama"])
    sampling = Sampling(temperature=0, repetition_penalty=1.3)
    request = Request(prompt=PROMPT, sampling=sampling, max_tokens=30)
    greedy = list(generate(model, [PROMPT], sampling, max_tokens=30))
    assert list(Speculation(model, request, ByteTokens())) == greedy


def test_speculation_refuses_chance():
    model = drawn(FAMILIES["llama"])
    with pytest.raises(ModelError, match="temperature must be 0"):
        Speculation(model, Request(prompt=[1], max_tokens=9), ByteTokens())
    with pytest.raises(ModelError, match=r"Lookup\.branches must be > 0"):
        Lookup(branches=0)


def test_look_up_guesses_what_followed_before_as_a_tree():
    """After 1 2: first 4 1 2, then 3 1 2; the latest place comes first."""
    draft = look_up(PROMPT, Lookup(length=3), most=9)
    assert draft.tokens == [2, 4, 1, 2, 3, 1, 2]
    assert draft.parents == [-1, 0, 1, 2, 0, 4, 5]
    assert draft.depths() == [0, 1, 2, 3, 1, 2, 3]
    assert not draft.is_chain
    assert look_up(PROMPT, Lookup(length=3, branches=1), most=2).tokens == [2, 4, 1]
    assert look_up([5, 6], Lookup(), most=9).tokens == [6]
    assert look_up(PROMPT, Lookup(), most=0).tokens == [2]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 4), st.integers(0, 6))
def test_look_up_drafts_only_what_stands_in_the_text(tokens, branches, most):
    draft = look_up(tokens, Lookup(branches=branches), most)
    assert max(draft.depths()) <= most
    for node, parent in enumerate(draft.parents[1:], start=1):
        assert parent < node
        assert bytes([draft.tokens[parent], draft.tokens[node]]) in bytes(tokens)


def test_draft_finds_the_child_of_a_node():
    draft = Draft([5, 6, 7, 6], [-1, 0, 0, 2])
    assert [draft.child(0, 7), draft.child(2, 6), draft.child(1, 6)] == [2, 3, None]


def test_speculation_leaves_the_cache_as_decoding_does(monkeypatch):
    """The rows kept of a tree are those of the path, in its order."""
    from hitherto.generation import speculation

    model, caches = drawn(FAMILIES["llama"]), []
    keep = speculation._keep
    monkeypatch.setattr(
        speculation, "_keep", lambda cache, *rest: (keep(cache, *rest), caches.append(cache))
    )
    request = Request(prompt=PROMPT, sampling=GREEDY, max_tokens=25)
    tokens = [piece.token for piece in Speculation(model, request, ByteTokens())]
    cache, length = caches[-1], caches[-1][0].length
    other = model.cache()
    with torch.no_grad():
        model(torch.tensor([[*PROMPT, *tokens][:length]]), cache=other)
    for mine, expected in zip(cache, other, strict=True):
        torch.testing.assert_close(mine.view()[0], expected.view()[0], rtol=0, atol=1e-11)
