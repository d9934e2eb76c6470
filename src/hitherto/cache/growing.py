"""The cache that keeps everything."""

from hitherto.cache.rows import (
    Keys,
    Rows,
    Values,
    View,
    require_filled,
    require_length,
    require_rows,
)


class Growing:
    """Keys and values of every position so far, for one layer.

    Memory doubles when it is full, so n appends cost O(n) copies. Gradients are not kept.
    """

    def __init__(self) -> None:
        self._rows: Rows | None = None

    @property
    def length(self) -> int:
        """Positions seen so far; the next append starts here."""
        return self._rows.count if self._rows else 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, the room to grow included."""
        return self._rows.nbytes if self._rows else 0

    def append(self, k: Keys, v: Values) -> None:
        """Add the next positions.

        Raises:
            ModelError: when shape, dtype or device is not that of the rows before.
        """
        require_rows(k, v)
        rows = self._rows or Rows.like(k, v, capacity=k.shape[2])
        rows.require_like(k, v)
        self._rows = rows.append(k.detach(), v.detach(), first=self.length)

    def view(self) -> View:
        """Keys, values and their positions; they share the cache's memory until it next changes.

        Raises:
            ModelError: when nothing was ever appended, so that no shape is known.
        """
        return require_filled(self._rows).view()

    def truncate(self, length: int) -> None:
        """Forget positions >= length, as when a draft is rejected.

        Raises:
            ModelError: when length is negative or beyond what was seen.
        """
        require_length(length, self.length)
        if self._rows:
            self._rows = self._rows.before(length)

    def fork(self) -> "Growing":
        """A copy that goes its own way. Cost: one copy of the rows."""
        other = Growing()
        other._rows = self._rows.copy() if self._rows else None
        return other
