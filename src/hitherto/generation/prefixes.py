"""Prompts that begin alike are read once: the beginnings whose pages are kept."""

from collections.abc import Sequence

from hitherto.cache import Paged, Pool


class Prefixes:
    """Beginnings of prompts, whole pages each, and the caches that hold them.

    Every layer's keys and values of a beginning depend on its tokens alone, so that whatever
    follows may start from a fork of them.
    """

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        self._kept: dict[tuple[int, ...], list[Paged]] = {}

    @property
    def pages(self) -> int:
        """Pages of a layer that are kept, at most; some are shared."""
        return sum(len(cache[0].pages) for cache in self._kept.values())

    def fork(self, prompt: Sequence[int]) -> list[Paged]:
        """A cache that holds the longest kept beginning of a prompt, its last token left out."""
        best: tuple[int, tuple[int, ...]] = (0, ())
        for beginning in self._kept:
            best = max(best, (self._common(beginning, prompt), beginning))
        length, beginning = best
        if length == 0:
            return [Paged(pool) for pool in self.pools]
        self._kept[beginning] = self._kept.pop(beginning)  # the latest to be dropped
        cache = [layer.fork() for layer in self._kept[beginning]]
        for layer in cache:
            layer.truncate(length)
        return cache

    def keep(self, prompt: Sequence[int], cache: Sequence[Paged]) -> None:
        """Keep what a cache holds of a prompt, as far as it fills pages."""
        size = self.pools[0].page_size
        whole = len(prompt) // size * size
        if whole == 0 or any(self._common(kept, prompt, 0) == whole for kept in self._kept):
            return
        forks = [layer.fork() for layer in cache]
        for layer in forks:
            layer.truncate(whole)
        self._kept[tuple(prompt[:whole])] = forks

    def drop_oldest(self) -> bool:
        """Forget the beginning that was not used for longest; False if there is none."""
        if not self._kept:
            return False
        for layer in self._kept.pop(next(iter(self._kept))):
            layer.release()
        return True

    def _common(self, kept: Sequence[int], prompt: Sequence[int], spare: int = 1) -> int:
        """Positions in which both agree, in whole pages, at least `spare` of the prompt left."""
        size, longest = self.pools[0].page_size, min(len(kept), len(prompt) - spare)
        same = next((i for i in range(longest) if kept[i] != prompt[i]), max(longest, 0))
        return same // size * size
