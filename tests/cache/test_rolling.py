"""Rolling keeps what a later query may see: no less, and after a trim no more."""

import numpy as np
import pytest
import torch

from hitherto.cache import Growing, Rolling
from hitherto.errors import ModelError
from hitherto.mask import evaluate, live_keys, parse

MASKS = (
    "Causal()",
    "Window(1)",
    "Window(5)",
    "Causal() & (Window(4) | Prefix(2))",
    "Causal() & Chunks(4)",
    "Causal() & (Chunks(6) | Prefix(1))",
    "Causal() | Prefix(3)",
    "Dilated(3, 4)",
)


def row(position: int) -> torch.Tensor:
    """A key that tells its position."""
    return torch.full((1, 2, 1, 4), float(position))


def filled(mask: str, length: int) -> Rolling:
    cache = Rolling(parse(mask))
    for position in range(length):
        cache.append(row(position), -row(position))
    return cache


def positions(cache: Rolling) -> list[int]:
    keys, values, at = cache.view()
    assert torch.equal(keys[0, 0, :, 0], at.float())
    assert torch.equal(values[0, 1, :, 3], -at.float())
    return at.tolist()


@pytest.mark.parametrize("mask", MASKS)
def test_rolling_holds_exactly_the_live_keys_after_a_trim(mask):
    for length in range(1, 21):
        cache = filled(mask, length)
        cache.trim()
        live = live_keys(parse(mask), length)
        assert positions(cache) == [k for i, j in live.tolist() for k in range(i, j)]
        assert cache.length == length


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_rolling_holds_every_key_its_queries_see(mask, chunk):
    """Would catch keys dropped before the queries that were appended with them attend."""
    cache, mask = Rolling(parse(mask)), parse(mask)
    for start in range(0, 24, chunk):
        rows = torch.cat([row(p) for p in range(start, start + chunk)], dim=2)
        cache.append(rows, -rows)
        seen = evaluate(mask, np.arange(start, start + chunk), np.arange(start + chunk)).any(axis=0)
        assert set(np.flatnonzero(seen)) <= set(positions(cache))


def test_rolling_window_needs_memory_for_the_window_only():
    """Would catch a block that keeps the size of a long prompt."""
    cache = Rolling(parse("Window(8)"))
    k = torch.zeros(1, 1, 10_000, 4)
    cache.append(k, k)
    long = cache.nbytes
    cache.append(k[:, :, :1], k[:, :, :1])
    assert cache.nbytes < long / 100
    most = max(cache.append(k[:, :, :1], k[:, :, :1]) or cache.nbytes for _ in range(300))
    assert most < long / 100


def test_rolling_truncate_goes_back_while_its_keys_are_there():
    """A rejected draft: eight tokens at once, two of them kept."""
    cache = filled("Window(4)", 10)
    draft = torch.cat([row(p) for p in range(10, 18)], dim=2)
    cache.append(draft, -draft)
    cache.truncate(12)
    cache.append(row(12), -row(12))
    assert positions(cache)[-4:] == [9, 10, 11, 12]
    assert cache.length == 13


@pytest.mark.parametrize("mask", ["Window(4)", "Causal() & (Window(4) | Prefix(2))"])
def test_rolling_refuses_to_truncate_to_where_keys_are_gone(mask):
    """Going back without them would attend to fewer keys than the mask shows, silently."""
    cache = filled(mask, 10)
    with pytest.raises(ModelError, match="needs keys already forgotten"):
        cache.truncate(5)
    assert cache.length == 10
    cache.truncate(9)
    assert positions(cache)[-3:] == [6, 7, 8]


def test_rolling_truncate_to_nothing_is_always_possible():
    cache = filled("Window(4)", 10)
    cache.truncate(0)
    cache.append(row(0), -row(0))
    assert positions(cache) == [0]


def test_rolling_fork_goes_its_own_way():
    cache = filled("Causal() & (Window(4) | Prefix(2))", 10)
    fork = cache.fork()
    cache.append(row(10), -row(10))
    assert (cache.length, fork.length) == (11, 10)
    fork.append(row(10), -row(10))
    assert positions(fork) == positions(cache)


def test_rolling_interrupted_anywhere_goes_back(monkeypatch):
    """Ctrl-C inside an append must leave rows that can be truncated to where they were."""
    from hitherto.cache.rows import Rows

    for name in ("keep", "append"):
        cache = filled("Causal() & (Window(4) | Prefix(2))", 10)
        original = getattr(Rows, name)

        def cut(*arguments: object, original=original, **named: object) -> None:
            original(*arguments, **named)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Rows, name, cut)
            with pytest.raises(KeyboardInterrupt):
                cache.append(row(10), -row(10))
        cache.truncate(10)
        cache.append(row(10), -row(10))
        assert positions(cache) == [0, 1, 7, 8, 9, 10]


def test_rolling_of_a_causal_mask_is_growing():
    growing, rolling = Growing(), filled("Causal()", 9)
    for position in range(9):
        growing.append(row(position), -row(position))
    assert torch.equal(growing.view()[0], rolling.view()[0])
