"""Cached = uncached, for every family, mask, cache and cut."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from hitherto.cache import Growing, Rolling
from hitherto.errors import ModelError
from hitherto.model import Decoder
from model.families import FAMILIES, MASKS, drawn, tokens

LENGTH = 15
EXACT = {"rtol": 0, "atol": 1e-11}


def in_steps(model: Decoder, ids: torch.Tensor, cache: list, chunk: int) -> torch.Tensor:
    """Logits of the prompt in chunks, cut where the model may be cut, the last 4 one by one."""
    cuts, length = [0], ids.shape[1] - 4
    while cuts[-1] < length:
        cuts.append(model.stack.limits.next_cut(cuts[-1], chunk, length))
    cuts += range(length + 1, ids.shape[1] + 1)
    parts = [model(ids[:, i:j], cache=cache) for i, j in pairwise(cuts)]
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("kind", ["growing", "rolling"])
@pytest.mark.parametrize("mask", [*MASKS, None])
@pytest.mark.parametrize("family", FAMILIES)
def test_cached_steps_equal_one_uncached_pass(family, mask, kind):
    """Would catch positions off by one, forgotten keys, a mask put on the wrong rows."""
    changes = {} if mask is None else {"layer_masks": (mask,)}
    model, ids = drawn(FAMILIES[family], **changes), tokens(2, LENGTH)
    whole = model(ids).detach()
    for chunk in (1, 2, 3, 7, LENGTH):
        cache = [Rolling(m) if kind == "rolling" else Growing() for m in model.masks]
        assert_close(in_steps(model, ids, cache, chunk), whole, **EXACT)
        assert {layer.length for layer in cache} == {LENGTH}


@pytest.mark.parametrize("family", FAMILIES)
def test_cached_steps_agree_in_float32(family):
    """Would catch a path that is only right in the reference backend."""
    model, ids = drawn(FAMILIES[family]).float(), tokens(2, LENGTH)
    stepped = in_steps(model, ids, model.cache(), 4)
    assert_close(stepped, model(ids).detach(), rtol=1e-4, atol=1e-4)


def test_decoder_cache_rolls_only_where_the_mask_forgets():
    """Would catch a Rolling cache that scans a causal mask at every step, for nothing."""
    kinds = {
        mask: type(drawn(FAMILIES["llama"], layer_masks=(mask,)).cache()[0]).__name__
        for mask in MASKS
    }
    assert kinds == {
        "Causal()": "Growing",
        "Window(5)": "Rolling",
        "Causal() & (Window(4) | Prefix(2))": "Rolling",
        "Causal() & Chunks(4)": "Rolling",
        "Causal() | Prefix(6)": "Growing",
    }
    assert isinstance(drawn(FAMILIES["gemma3"]).cache(rolling=False)[0], Growing)


def test_cached_step_refuses_a_cut_inside_a_prefix_that_sees_itself():
    """A prefix token read before the rest of its prefix would silently miss keys."""
    model, ids = drawn(FAMILIES["llama"], layer_masks=("Causal() | Prefix(6)",)), tokens(1, 9)
    cache = model.cache()
    model(ids[:, :4], cache=cache)
    with pytest.raises(ModelError, match="a cut at 4"):
        model(ids[:, 4:], cache=cache)
    assert cache[0].length == 4


def test_cached_step_keeps_no_gradient():
    """Would catch a cache that holds a graph of every step so far."""
    model = drawn(FAMILIES["llama"])
    cache = model.cache()
    model(tokens(1, 3), cache=cache)
    assert not cache[0].view()[0].requires_grad
    assert model(tokens(1, 3)).requires_grad


@pytest.mark.parametrize("broken", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("mask", ["Causal()", "Window(3)", "Causal() & (Window(4) | Prefix(2))"])
def test_broken_step_leaves_the_cache_usable(mask, error, broken):
    """Ctrl-C between two layers must not leave one layer a step ahead of the other."""
    model, ids = drawn(FAMILIES["llama"], layer_masks=(mask,)), tokens(1, LENGTH)
    whole, cache = model(ids).detach(), model.cache()
    model(ids[:, :8], cache=cache)

    def fail(*_: object) -> None:
        raise error

    hook = model.stack.blocks[broken].feed_forward.register_forward_hook(fail)
    with pytest.raises(error):
        model(ids[:, 8:11], cache=cache)
    hook.remove()
    assert [layer.length for layer in cache] == [8, 8]
    assert_close(model(ids[:, 8:], cache=cache), whole[:, 8:], **EXACT)


def test_step_refuses_a_cache_whose_layers_disagree():
    """Would catch a cache advanced by hand in one layer."""
    model = drawn(FAMILIES["llama"])
    cache = model.cache()
    model(tokens(1, 4), cache=cache)
    cache[1].truncate(2)
    with pytest.raises(ModelError, match=r"same length in every layer; got \[2, 4\]"):
        model(tokens(1, 1), cache=cache)


def test_step_beyond_max_length_says_so():
    """Would catch an index error from deep inside an embedding."""
    model = drawn(FAMILIES["gpt2"])
    cache = model.cache()
    model(tokens(1, 60), cache=cache)
    with pytest.raises(ModelError, match="max_length of 64 positions; got 65"):
        model(tokens(1, 5), cache=cache)


@pytest.mark.parametrize(
    "bad",
    [torch.zeros(3, dtype=torch.int64), torch.zeros(1, 0, dtype=torch.int64), torch.ones(1, 3)],
)
def test_decoder_refuses_what_is_no_batch_of_ids(bad):
    with pytest.raises(ModelError, match="must be int64 ids of shape"):
        drawn(FAMILIES["llama"])(bad)
