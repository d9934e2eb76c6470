"""The cache that forgets what no later query may see."""

from hitherto.cache.rows import (
    Keys,
    Rows,
    Values,
    View,
    require_filled,
    require_length,
    require_rows,
    spare,
)
from hitherto.errors import ModelError, explain
from hitherto.mask import Mask, live_keys


class Rolling:
    """Keys and values that a query to come may see, for one layer.

    After `trim()` exactly `live_keys(mask, length)` are held. An append trims first, so between two
    appends the view also holds what the queries just appended may see.
    """

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self._rows: Rows | None = None
        self._length = 0

    @property
    def length(self) -> int:
        """Positions seen so far, forgotten ones included; the next append starts here."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, the room to grow included."""
        return self._rows.nbytes if self._rows else 0

    def append(self, k: Keys, v: Values) -> None:
        """Trim, then add the next positions.

        Raises:
            ModelError: when shape, dtype or device is not that of the rows before.
        """
        require_rows(k, v)
        self.trim()
        rows = self._rows or Rows.like(k, v, capacity=k.shape[2])
        rows.require_like(k, v)
        self._rows = rows.append(k.detach(), v.detach(), first=self._length, room=spare(rows.count))
        self._length += k.shape[2]

    def view(self) -> View:
        """Keys, values and their positions; they share the cache's memory until it next changes.

        Raises:
            ModelError: when nothing was ever appended, so that no shape is known.
        """
        return require_filled(self._rows).view()

    def trim(self) -> None:
        """Forget now what no query at `length` or later may see.

        Cost: nothing for a window; one copy of the kept rows when they lie apart (sinks).
        """
        if self._rows:
            self._rows = self._rows.keep(live_keys(self.mask, self._length))

    def truncate(self, length: int) -> None:
        """Forget positions >= length, as when a draft is rejected.

        Raises:
            ModelError: when length is negative, beyond what was seen, or so far back that keys a
                query there may see are gone. Fix: fork before a draft, or use Growing.
        """
        require_length(length, self._length)
        if self._rows:
            self._require_kept(self._rows, length)
            self._rows = self._rows.before(length)
        self._length = length

    def fork(self) -> "Rolling":
        """A copy that goes its own way. Cost: one copy of the rows."""
        other = Rolling(self.mask)
        other._rows, other._length = (self._rows.copy() if self._rows else None), self._length
        return other

    def _require_kept(self, rows: Rows, length: int) -> None:
        needed = live_keys(self.mask, length)
        missing = int((needed[:, 1] - needed[:, 0]).sum()) - sum(
            j - i for i, j in rows.find(needed)
        )
        if missing:
            raise ModelError(
                explain(
                    "truncate(length)",
                    f"must not go back to where {self.mask} needs keys already forgotten",
                    f"{length}, {missing} keys short",
                    "fork() the cache before a draft, or use Growing()",
                )
            )
