"""Ending a text at a stop string, which may begin in one token and end in another."""

from collections.abc import Sequence

from hitherto.errors import ModelError, explain


class Stopper:
    """Lets bytes through until a stop string comes; holds back what may become one.

    Which stop string ends the text depends on the bytes alone, not on how tokens cut them: the one
    that ends first, and of those the longest.
    """

    def __init__(self, stop: Sequence[bytes]) -> None:
        if isinstance(stop, (bytes, str)) or not all(isinstance(s, bytes) and s for s in stop):
            raise ModelError(
                explain("stop", "must be a list of non-empty bytes", stop, 'pass e.g. [b"\\n\\n"]')
            )
        self._stop = tuple(stop)
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What may be shown now, and whether the text ends with it."""
        text = self._held + data
        found = [(at + len(s), at) for s in self._stop if (at := text.find(s)) >= 0]
        if found:
            self._held = b""
            return text[: min(found)[1]], True
        held = max((_overlap(text, s) for s in self._stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def flush(self) -> bytes:
        """What was held back, when no more comes."""
        text, self._held = self._held, b""
        return text


def _overlap(text: bytes, stop: bytes) -> int:
    """Length of the longest end of the text with which the stop string begins."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
