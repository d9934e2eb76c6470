"""Paged holds what Growing holds, whoever shares its pages."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hitherto.cache import Growing, Paged, Pool
from hitherto.errors import ModelError


def rows(count: int, first: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows that tell their number."""
    numbers = torch.arange(first, first + count).float()
    k = numbers[None, None, :, None].expand(1, 2, count, 3).contiguous()
    return k, -k[..., :2]


def assert_same(paged: Paged, growing: Growing) -> None:
    assert paged.length == growing.length
    if growing.length:
        for mine, other in zip(paged.view(), growing.view(), strict=True):
            assert torch.equal(mine, other)
        for side in (0, 1):
            joined = torch.cat([piece[side] for piece in paged.pieces()], dim=2)
            assert torch.equal(joined, growing.view()[side])


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "truncate", "fork", "release"]), st.integers(0, 9),
              st.integers(0, 5)),
    max_size=25,
)  # fmt: skip


@given(steps=STEPS, page_size=st.sampled_from([1, 3, 4]))
def test_paged_equals_growing_through_appends_truncations_and_forks(steps, page_size):
    """Would catch a write into a page that a fork still reads, and a page freed while in use."""
    pool = Pool(200, page_size)
    pairs, number = [(Paged(pool), Growing())], 0
    for step, size, which in steps:
        paged, growing = pairs[which % len(pairs)]
        match step:
            case "append" if size:
                for cache in (paged, growing):
                    cache.append(*rows(size, number))
                number += size
            case "truncate":
                for cache in (paged, growing):
                    cache.truncate(min(size, growing.length))
            case "fork":
                pairs.append((paged.fork(), growing.fork()))
            case "release":
                paged.release()
                growing.truncate(0)
        for pair in pairs:
            assert_same(*pair)
    for paged, _ in pairs:
        paged.release()
    assert pool.free == pool.num_pages


def test_fork_shares_pages_until_one_writes():
    pool = Pool(10, 4)
    one = Paged(pool)
    one.append(*rows(10))
    assert pool.free == 7
    other = one.fork()
    assert pool.free == 7
    other.append(*rows(1, 99))
    assert pool.free == 6
    assert one.pages[:2] == other.pages[:2]
    assert one.view()[0][0, 0, :, 0].tolist() == list(range(10))
    assert other.view()[0][0, 0, :, 0].tolist() == [*range(10), 99]


def test_view_of_neighbouring_pages_is_no_copy():
    pool = Pool(10, 4)
    one = Paged(pool)
    one.append(*rows(10))
    assert one.view()[0].data_ptr() == pool.keys.data_ptr()
    assert len(one.pieces()) == 1
    other = Paged(pool)
    other.append(*rows(2))
    one.append(*rows(8))
    assert len(one.pieces()) == 2


def test_full_pool_refuses_and_leaves_everything_as_it_was():
    pool = Pool(3, 4)
    one, other = Paged(pool), Paged(pool)
    one.append(*rows(6))
    other.append(*rows(3))
    with pytest.raises(ModelError, match="must fit the pool's 3 pages"):
        one.append(*rows(3))
    assert one.length == 6
    assert pool.free == 0
    other.release()
    one.append(*rows(3, 6))
    assert one.view()[0][0, 0, :, 0].tolist() == list(range(9))


def test_full_pool_refuses_a_fork_that_would_copy():
    pool = Pool(2, 4)
    one = Paged(pool)
    one.append(*rows(6))
    other = one.fork()
    with pytest.raises(ModelError, match="must fit the pool's 2 pages"):
        other.append(*rows(1))
    assert_same(other, _grown(6))
    one.release()
    other.append(*rows(1, 6))
    assert_same(other, _grown(7))


def _grown(count: int) -> Growing:
    growing = Growing()
    growing.append(*rows(count))
    return growing


@pytest.mark.parametrize(
    ("k", "v"),
    [
        (torch.ones(2, 2, 1, 3), torch.ones(2, 2, 1, 2)),
        (torch.ones(1, 3, 1, 3), torch.ones(1, 3, 1, 2)),
        (torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 2)),
        (torch.ones(1, 2, 1, 3).double(), torch.ones(1, 2, 1, 2)),
        (torch.ones(1, 2, 1, 3), torch.ones(1, 2, 2, 2)),
    ],
)
def test_append_refuses_rows_of_another_kind(k, v):
    pool = Pool(4)
    cache = Paged(pool)
    cache.append(*rows(1))
    with pytest.raises(ModelError, match="append"):
        cache.append(k, v)
    assert cache.length == 1


def test_pool_refuses_sizes_that_hold_nothing():
    for arguments in ((0, 4), (4, 0)):
        with pytest.raises(ModelError, match="must be >= 1"):
            Pool(*arguments)
    with pytest.raises(ModelError, match="needs at least one append"):
        Paged(Pool(1)).view()
    with pytest.raises(ModelError, match="from 0 to the 0 positions"):
        Paged(Pool(1)).truncate(1)
