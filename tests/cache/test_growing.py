"""Growing keeps everything, in the order and at the positions it came."""

import pytest
import torch

from hitherto.cache import Growing
from hitherto.errors import ModelError


def rows(n: int, seed: int = 0, **kind: object) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    k = torch.randn(2, 3, n, 4, generator=generator).to(**kind)
    return k, torch.randn(2, 3, n, 5, generator=generator).to(**kind)


def test_growing_gives_back_what_was_appended():
    cache, (k, v) = Growing(), rows(20)
    for start, stop in ((0, 1), (1, 7), (7, 7), (7, 20)):
        cache.append(k[:, :, start:stop], v[:, :, start:stop])
        keys, values, positions = cache.view()
        assert torch.equal(keys, k[:, :, :stop])
        assert torch.equal(values, v[:, :, :stop])
        assert positions.tolist() == list(range(stop))
        assert cache.length == stop


def test_growing_copies_seldom():
    """Would catch growth by a constant, which makes n appends cost n * n copies."""
    cache, (k, v) = Growing(), rows(1)
    blocks = set()
    for _ in range(2000):
        cache.append(k, v)
        blocks.add(cache.view()[0].data_ptr())
    assert len(blocks) <= 9
    assert cache.nbytes <= 2 * 2000 * (2 * 3 * (4 + 5) * 4 + 8)


def test_growing_truncate_goes_back_and_on():
    cache, (k, v) = Growing(), rows(10)
    cache.append(k, v)
    cache.truncate(6)
    again, _ = rows(2, seed=1)
    cache.append(again, v[:, :, :2])
    assert cache.length == 8
    assert torch.equal(cache.view()[0], torch.cat([k[:, :, :6], again], dim=2))


def test_growing_fork_goes_its_own_way():
    """Would catch two caches that write into one block."""
    cache, (k, v) = Growing(), rows(5)
    cache.append(k, v)
    fork = cache.fork()
    for each, seed in ((cache, 1), (fork, 2)):
        each.append(*rows(3, seed))
    assert torch.equal(cache.view()[0][:, :, 5:], rows(3, 1)[0])
    assert torch.equal(fork.view()[0][:, :, 5:], rows(3, 2)[0])


def test_growing_truncated_to_nothing_still_knows_its_shape():
    cache = Growing()
    cache.append(*rows(3))
    cache.truncate(0)
    assert cache.length == 0
    assert cache.view()[0].shape == (2, 3, 0, 4)
    with pytest.raises(ModelError, match="must follow rows"):
        cache.append(*rows(3, dtype=torch.float64))


@pytest.mark.parametrize("length", [-1, 4])
def test_growing_refuses_to_truncate_beyond_what_it_saw(length):
    cache = Growing()
    cache.append(*rows(3))
    with pytest.raises(ModelError, match=r"must be from 0 to the 3 positions seen"):
        cache.truncate(length)


def test_growing_refuses_rows_that_do_not_follow():
    cache, (k, v) = Growing(), rows(3)
    with pytest.raises(ModelError, match="needs at least one append"):
        cache.view()
    with pytest.raises(ModelError, match="Split the heads"):
        cache.append(k, v[:, :, :2])
    cache.append(k, v)
    for bad in ((k[:1], v[:1]), (k[:, :2], v[:, :2]), (k[..., :3], v), (k, v[..., :3])):
        with pytest.raises(ModelError, match="must follow rows"):
            cache.append(*bad)
    with pytest.raises(ModelError, match=r"torch.float64 on cpu"):
        cache.append(k.double(), v.double())
    assert cache.length == 3
