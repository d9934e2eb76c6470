"""A cache over ranks: the tokens of one process, and each key on one rank only."""

import pytest
import torch

from distributed.generating import FAMILIES, generated
from distributed.ranks import on_ranks
from hitherto.distributed import Sharded
from hitherto.errors import ModelError
from hitherto.mask import Causal, Window


@pytest.mark.parametrize(("ranks", "block"), [(2, 4), pytest.param(3, 64, marks=pytest.mark.slow)])
def test_cache_over_ranks_writes_what_one_process_writes(ranks, block, tmp_path):
    """A rank without keys that gives NaN; a step counted from a rank's own last key."""
    for answer in on_ranks(generated, ranks, tmp_path, block):
        for family in FAMILIES:
            found = answer[family]
            assert found["same tokens"], family
            assert found["gap"] < 1e-12, family
            assert found["keys"] == found["keys alone"], family


def rows(count, first=0):
    positions = torch.arange(first, first + count, dtype=torch.float64)
    return positions[None, None, :, None], -positions[None, None, :, None]


def test_sharded_ranks_together_hold_every_position_once():
    caches = [Sharded(rank, 3) for rank in range(3)]
    for cache in caches:
        cache.append(*rows(200))
        cache.append(*rows(1, 200))
        assert cache.length == 201
    held = [cache.view() for cache in caches]
    assert sorted(torch.cat([positions for _, _, positions in held]).tolist()) == list(range(201))
    for keys, values, positions in held:
        assert keys.flatten().tolist() == positions.tolist()
        assert values.flatten().tolist() == (-positions).tolist()


def test_sharded_forgets_goes_back_and_forks():
    cache = Sharded(0, 2, Causal() & Window(10))
    cache.append(*rows(150))
    other = cache.fork()
    cache.truncate(140)
    assert cache.length == 140
    cache.append(*rows(3, 140))
    assert cache.view()[2].tolist() == [*range(131, 143)]
    with pytest.raises(ModelError, match="truncate"):
        cache.truncate(100)
    assert other.length == 150
    assert other.view()[2].numel() == 64 + 22
    with pytest.raises(ModelError, match="positions seen"):
        other.truncate(151)
