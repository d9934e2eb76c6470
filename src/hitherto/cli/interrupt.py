"""Ctrl-C as a request: the work in hand is finished and saved before anything stops."""

import signal
from types import FrameType, TracebackType


class Interrupt:
    """Inside `with Interrupt() as stop:` the first Ctrl-C (or kill) only sets `stop.asked`.

    The second is ignored, so that saving is not cut short. The third raises KeyboardInterrupt, for
    a step that never ends; checkpoints are atomic, so even then the last one is whole.
    """

    def __init__(self) -> None:
        self.count = 0
        self._old: dict[int, object] = {}

    @property
    def asked(self) -> bool:
        """Whether a person, or the system, wants us to stop."""
        return self.count > 0

    def __enter__(self) -> "Interrupt":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count >= 3:
            raise KeyboardInterrupt
