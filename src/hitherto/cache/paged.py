"""The cache of many sequences that share memory: fixed pages, copied only when written to.

Source: https://arxiv.org/abs/2309.06180
"""

from itertools import pairwise

import torch
from torch import Tensor

from hitherto.cache.rows import Keys, Values, View, require_length, require_rows
from hitherto.errors import ModelError, explain


class Pool:
    """Pages for one layer's keys and values; every sequence of that layer takes its own from here.

    Args:
        num_pages: how many there are, for good.
        page_size: positions that a page holds.
    """

    def __init__(self, num_pages: int, page_size: int = 16) -> None:
        for name, value in (("num_pages", num_pages), ("page_size", page_size)):
            if value < 1:
                raise ModelError(explain(f"Pool({name})", "must be >= 1", value, "use more"))
        self.num_pages, self.page_size = num_pages, page_size
        self.keys: Tensor | None = None
        """(1, kv_heads, num_pages * page_size, head_dim), from the first append on."""
        self.values: Tensor | None = None
        """(1, kv_heads, num_pages * page_size, v_dim)."""
        self._users = [0] * num_pages

    @property
    def free(self) -> int:
        """Pages that nobody uses."""
        return self._users.count(0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held: all pages, used or not."""
        tensors = (self.keys, self.values)
        return sum(0 if tensor is None else tensor.nbytes for tensor in tensors)

    def take(self, after: int | None = None) -> int:
        """A page for one user; the next one in memory if it is free, so that views need no copy.

        Raises:
            ModelError: when every page is in use.
        """
        wanted = 0 if after is None else after + 1
        free = (page for page, users in enumerate(self._users) if users == 0)
        if wanted < self.num_pages and self._users[wanted] == 0:
            page = wanted
        else:
            page = next(free, None)
        if page is None:
            raise ModelError(
                explain("cache", f"must fit the pool's {self.num_pages} pages", "all are in use",
                        "release() a sequence, or give the pool more pages")
            )  # fmt: skip
        self._users[page] = 1
        return page

    def share(self, pages: list[int]) -> None:
        """Count one more user of each page."""
        for page in pages:
            self._users[page] += 1

    def leave(self, pages: list[int]) -> None:
        """Count one user less; a page that nobody uses may be taken again."""
        for page in pages:
            self._users[page] -= 1

    def is_shared(self, page: int) -> bool:
        """Whether writing to it would change another sequence."""
        return self._users[page] > 1

    def require_like(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The memory for rows like these, taken now if there is none yet."""
        if self.keys is None or self.values is None:
            slots = self.num_pages * self.page_size
            self.keys, self.values = (x.new_empty(1, x.shape[1], slots, x.shape[3]) for x in (k, v))
        for name, came, block in (("k", k, self.keys), ("v", v, self.values)):
            fits = came.shape[0] == 1 and came.shape[1] == block.shape[1]
            fits = fits and came.shape[3] == block.shape[3]
            if not fits or came.dtype != block.dtype or came.device != block.device:
                raise ModelError(
                    explain(
                        f"append({name})",
                        f"must be one sequence's rows for {tuple(block.shape)}, {block.dtype}",
                        f"{tuple(came.shape)}, {came.dtype} on {came.device}",
                        "use one Paged for each sequence, and one Pool for each layer",
                    )
                )
        return self.keys, self.values


class Paged:
    """Keys and values of one sequence in one layer, in pages of a pool.

    Forks share pages: a page is copied when one of those that share it writes to it. Gradients are
    not kept. A sequence that is done must `release()` its pages.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.pages: list[int] = []
        """Where positions 0 .. page_size - 1 are, and so on."""
        self._length = 0

    @property
    def length(self) -> int:
        """Positions seen so far; the next append starts here."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of the pages used; those shared with others are counted in each."""
        return self.pool.nbytes // self.pool.num_pages * len(self.pages)

    def append(self, k: Keys, v: Values) -> None:
        """Add the next positions; batch is 1.

        Raises:
            ModelError: when the rows do not fit the pool's, or it has no page left. The sequence is
                then as before.
        """
        require_rows(k, v)
        keys, values = self.pool.require_like(k, v)
        start, stop = self._length, self._length + k.shape[2]
        pages = self._room(start, stop)
        size = self.pool.page_size
        for first, last in pairwise(_edges(start, stop, size)):
            page, inside = pages[first // size], first % size
            slots = slice(page * size + inside, page * size + inside + last - first)
            keys[:, :, slots] = k[:, :, first - start : last - start].detach()
            values[:, :, slots] = v[:, :, first - start : last - start].detach()
        self.pages, self._length = pages, stop

    def view(self) -> View:
        """Keys, values and their positions.

        Cost: nothing when the pages lie side by side; else one copy. `pieces` never copies.

        Raises:
            ModelError: when nothing was appended.
        """
        pieces = self.pieces()
        keys, values = (
            side[0] if len(side) == 1 else torch.cat(side, dim=2)
            for side in zip(*pieces, strict=True)
        )
        return keys, values, torch.arange(self._length)

    def pieces(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values one after another, each stretch of neighbouring pages as it lies."""
        keys, values, size = self.pool.keys, self.pool.values, self.pool.page_size
        if keys is None or values is None or not self._length:
            raise ModelError(
                explain("view()", "needs at least one append", "an empty cache", "append first")
            )
        found, left = [], self._length
        for first, last in _stretches(self.pages):
            count = min(left, (last - first) * size)
            slots = slice(first * size, first * size + count)
            found.append((keys[:, :, slots], values[:, :, slots]))
            left -= count
        return found

    def truncate(self, length: int) -> None:
        """Forget positions >= length, as when a draft is rejected.

        Raises:
            ModelError: when length is negative or beyond what was seen.
        """
        require_length(length, self._length)
        kept = -(-length // self.pool.page_size)
        self.pool.leave(self.pages[kept:])
        self.pages, self._length = self.pages[:kept], length

    def fork(self) -> "Paged":
        """A sequence that goes its own way from here. Cost: none; pages are shared."""
        other = Paged(self.pool)
        self.pool.share(self.pages)
        other.pages, other._length = list(self.pages), self._length
        return other

    def release(self) -> None:
        """Give every page back."""
        self.truncate(0)

    def _room(self, start: int, stop: int) -> list[int]:
        """The pages for positions up to `stop`, all that are written to this sequence's own."""
        pages, size, taken = list(self.pages), self.pool.page_size, []
        try:
            if start % size and stop > start and self.pool.is_shared(pages[-1]):
                taken.append(self.pool.take(pages[-2] if len(pages) > 1 else None))
                self._copy(pages[-1], taken[0], start % size)
                pages[-1] = taken[0]
            while len(pages) * size < stop:
                taken.append(self.pool.take(pages[-1] if pages else None))
                pages.append(taken[-1])
        except ModelError:
            self.pool.leave(taken)
            raise
        self.pool.leave([page for page in self.pages if page not in pages])
        return pages

    def _copy(self, page: int, other: int, rows: int) -> None:
        size = self.pool.page_size
        for block in (self.pool.keys, self.pool.values):
            if block is not None:
                held = block[:, :, page * size : page * size + rows]
                block[:, :, other * size : other * size + rows] = held


def _edges(start: int, stop: int, size: int) -> list[int]:
    """Cut start .. stop - 1 where pages end."""
    inner = range((start // size + 1) * size, stop, size)
    return [start, *inner, stop] if stop > start else [start]


def _stretches(pages: list[int]) -> list[tuple[int, int]]:
    """Runs [first, last) of pages that follow one another."""
    cuts = [i for i in range(1, len(pages)) if pages[i] != pages[i - 1] + 1]
    edges = pairwise([0, *cuts, len(pages)])
    return [(pages[i], pages[j - 1] + 1) for i, j in edges]
