"""Generation is one uncached pass after another, only faster; neighbours change nothing."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from hitherto.errors import ModelError
from hitherto.generation import Sampling, complete, generate, prefill, sample, stream_text
from hitherto.mask import bind, evaluate
from hitherto.model import Decoder
from model.families import FAMILIES, drawn, tokens

PROMPTS = (list(b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"), list(b"\x0a"), list(b"\x0b\x0c\x0d\x0e"))


def uncached(model: Decoder, prompt: list[int], sampling: Sampling, n: int) -> list[int]:
    """Generate by running the whole sequence again for every token."""
    ids, random = list(prompt), sampling.random(0)
    for _ in range(n):
        logits = model(torch.tensor([ids]))[0, -1].detach().numpy()
        ids.append(sample(logits, ids, sampling, random))
    return ids[len(prompt) :]


def generated(model: Decoder, prompts: tuple, *arguments: object, **options: object) -> list:
    texts = [[] for _ in prompts]
    for piece in generate(model, prompts, *arguments, **options):
        texts[piece.sequence].append(piece.token)
    return texts


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 0.8, "top_k": 10}])
@pytest.mark.parametrize("family", FAMILIES)
def test_generate_equals_running_the_whole_sequence_each_time(family, settings):
    model, sampling = drawn(FAMILIES[family]), Sampling(**settings, repetition_penalty=1.1)
    expected = uncached(model, PROMPTS[0], sampling, 12)
    assert generated(model, PROMPTS[:1], sampling, max_tokens=12, chunk=4) == [expected]


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_gives_a_sequence_the_same_text_whoever_is_beside_it(family):
    """Lengths differ and nothing is padded; one neighbour stops early."""
    model, sampling = drawn(FAMILIES[family]), Sampling(temperature=0.9, seed=7)
    together = generated(model, PROMPTS, sampling, max_tokens=9)
    stop = [bytes(together[1][3:5])]
    short = generated(model, PROMPTS, sampling, max_tokens=9, stop=stop)
    assert len(short[1]) <= 5
    for index, prompt in enumerate(PROMPTS):
        alone = Sampling(temperature=0.9, seed=7 + index)
        assert generated(model, (prompt,), alone, max_tokens=9) == [together[index]]
        assert short[index] == together[index][: len(short[index])]


def test_generation_step_t_is_a_t_by_t_causal_matrix_and_the_cached_step_its_last_row(monkeypatch):
    """At step t every one of t tokens weighs itself and those before it; a cache keeps the rest,
    so that only the last of these rows is computed again."""
    weights = []

    def watched(q, k, v, mask, *, scale=None, k_pos=None, **rest):
        k_pos = np.arange(k.shape[2]) if k_pos is None else k_pos.numpy()
        shown = evaluate(mask, np.arange(k_pos[-1] + 1 - q.shape[2], k_pos[-1] + 1), k_pos)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        weights.append(scores.masked_fill(~torch.from_numpy(shown.copy()), -torch.inf).softmax(-1))
        return weights[-1] @ v

    monkeypatch.setattr("hitherto.model.attention.attend", watched)
    model, ids = drawn(FAMILIES["gpt2"], num_layers=1), tokens(1, 9)
    cache = model.cache()
    for t in range(1, 10):
        weights.clear()
        model(ids[:, :t])
        model(ids[:, t - 1 : t], cache=cache)
        whole, cached = weights
        assert whole.shape == (1, 3, t, t)
        assert cached.shape == (1, 3, 1, t)
        assert np.array_equal(bind(model.masks[0], t, t).dense(), np.tri(t, dtype=bool))
        assert torch.equal(whole != 0, torch.ones(1, 3, t, t).tril().bool())
        assert_close(whole.sum(dim=-1), torch.ones(1, 3, t).double())
        assert_close(cached[:, :, 0], whole[:, :, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("mask", ["Causal()", "Window(4)", "Causal() | Prefix(6)"])
def test_prefill_in_chunks_gives_the_logits_of_one_pass(mask, chunk):
    model, ids = drawn(FAMILIES["llama"], layer_masks=(mask,)), tokens(2, 11)
    cache = model.cache()
    logits = prefill(model, ids, cache, chunk)
    assert_close(logits, model(ids)[:, -1].detach(), rtol=0, atol=1e-11)
    assert cache[0].length == 11
    assert not logits.requires_grad


def test_prefill_runs_no_more_than_a_chunk_at_once():
    model, seen = drawn(FAMILIES["llama"]), []
    model.stack.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[1]))
    prefill(model, tokens(1, 11), model.cache(), chunk=4)
    assert seen == [4, 4, 3]
    with pytest.raises(ModelError, match="chunk must be >= 1"):
        prefill(model, tokens(1, 11), model.cache(), chunk=0)


def test_prefill_keeps_a_prefix_that_sees_itself_in_one_piece():
    model, seen = drawn(FAMILIES["llama"], layer_masks=("Causal() | Prefix(6)",)), []
    model.stack.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[1]))
    prefill(model, tokens(1, 11), model.cache(), chunk=4)
    assert seen == [6, 4, 1]


def test_generate_stops_at_a_string_and_says_why():
    model, greedy = drawn(FAMILIES["llama"]), Sampling(temperature=0)
    free = list(generate(model, PROMPTS[:1], greedy, max_tokens=8))
    assert [p.finish for p in free] == [None] * 7 + ["length"]
    text = b"".join(p.text for p in free)
    assert text == bytes(p.token for p in free)
    stopped = list(generate(model, PROMPTS[:1], greedy, max_tokens=8, stop=[text[4:6]]))
    assert stopped[-1].finish == "stop"
    assert b"".join(p.text for p in stopped) == text[: text.index(text[4:6])]
    assert complete(model, PROMPTS[:1], greedy, max_tokens=8, stop=[text[4:6]]) == [
        text[: text.index(text[4:6])]
    ]


def test_generate_flushes_what_was_held_back_for_a_stop_string_that_did_not_come():
    model, greedy = drawn(FAMILIES["llama"]), Sampling(temperature=0)
    (text,) = complete(model, PROMPTS[:1], greedy, max_tokens=8)
    assert complete(model, PROMPTS[:1], greedy, max_tokens=8, stop=[text[6:] + b"?"]) == [text]


def test_generate_streams():
    """Would catch a list in place of an iterator: the first token must not wait for the last."""
    model = drawn(FAMILIES["llama"])
    pieces = generate(model, PROMPTS[:1], max_tokens=50)
    calls = []
    model.stack.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    next(pieces)
    assert len(calls) == 1


def test_stream_text_is_the_decoded_text():
    model = Decoder(FAMILIES["llama"])
    sampling = Sampling(seed=2)
    pieces = list(stream_text(model, "\x05\x06", sampling, max_tokens=20))
    (text,) = complete(model, [b"\x05\x06"], sampling, max_tokens=20)
    assert "".join(pieces) == text.decode("utf-8", "replace")
    assert len(pieces) == 20


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([b""], {}, "at least one token each"),
        (b"text", {}, "must be a list"),
        ([[3, 40]], {}, "token ids from 0 to 39; got 40"),
        ([[-1]], {}, "got -1"),
        ([[1] * 60], {"max_tokens": 6}, "max_length of 64 positions; got 65"),
        ([[1]], {"max_tokens": 0}, "max_tokens must be >= 1"),
        ([[1]], {"stop": b"x"}, "stop must be a list"),
    ],
)
def test_generate_says_what_is_wrong_at_the_call(prompts, options, message):
    """At the call, not at the first token."""
    with pytest.raises(ModelError, match=message):
        generate(drawn(FAMILIES["gpt2"]), prompts, **{"max_tokens": 5} | options)
    assert generate(drawn(FAMILIES["gpt2"]), [[1] * 60], max_tokens=5)


def test_generate_says_when_a_mask_ends_before_the_text():
    model = drawn(FAMILIES["llama"], layer_masks=("Causal() & Keys([range(0, 9)])",))
    assert generate(model, [[1]], max_tokens=20)
    model = drawn(FAMILIES["llama"], layer_masks=("Causal() & Segments([0, 0, 0, 0])",))
    with pytest.raises(ModelError, match="does not reach 5 positions"):
        generate(model, [[1, 2, 3]], max_tokens=3)


class Numbers:
    """A tokenizer whose tokens are spelled as their numbers."""

    ends = frozenset({7})

    def encode(self, text: str, begin: bool = True) -> list[int]:
        return [int(number) for number in text.split()]

    def spell(self, token: int) -> bytes:
        return b"<%d>" % token


def test_generate_needs_a_tokenizer_beyond_bytes():
    model = Decoder(FAMILIES["llama"].__class__(vocab_size=300, width=8, num_layers=1, num_heads=1))
    with pytest.raises(ModelError, match="tokenizer must be given"):
        generate(model, [[1]])
    pieces = list(generate(model, [[299]], max_tokens=3, tokenizer=Numbers()))
    assert all(p.text == b"<%d>" % p.token for p in pieces if p.finish != "end")


def test_generate_ends_at_a_token_that_ends_a_text():
    """Its spelling is not part of the text, and what was held back for a stop string is."""
    model, greedy = drawn(FAMILIES["llama"]), Sampling(temperature=0)
    free = [p.token for p in generate(model, [[1]], greedy, max_tokens=9, tokenizer=Numbers())]
    tokenizer = Numbers()
    tokenizer.ends = frozenset({free[4]})
    first = free.index(free[4])
    held = b"".join(b"<%d>" % token for token in free[:first])
    stop = [held[-1:] + b"?"]
    pieces = list(generate(model, [[1]], greedy, max_tokens=9, stop=stop, tokenizer=tokenizer))
    assert [p.token for p in pieces] == free[: first + 1]
    assert pieces[-1].finish == "end"
    assert b"".join(p.text for p in pieces) == held
