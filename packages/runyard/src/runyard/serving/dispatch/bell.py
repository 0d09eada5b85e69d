import asyncio
import time
from collections.abc import Callable

_LONGEST_SECONDS = 3600.0


class DeadlineBell:
    """One timer for any number of deadlines: it is not set anew for each of them, but looks again when it rings."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[float], float]) -> None:
        """`look` is called with time.monotonic(), deals with what is due, and says when the next is; inf for none."""
        self._loop, self._look = loop, look
        self._timer: asyncio.TimerHandle | None = None
        self.is_set = False

    def set_in(self, seconds: float) -> None:
        """Whoever adds a deadline while the bell is set must not need it to ring earlier than this would have."""
        self.cancel()
        self.is_set = True
        self._timer = self._loop.call_later(max(0.0, min(seconds, _LONGEST_SECONDS)), self._ring)

    def cancel(self) -> None:
        self.is_set = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look_now(self) -> None:
        self.cancel()
        self._ring()

    def _ring(self) -> None:
        self.is_set, self._timer = False, None
        due = self._look(time.monotonic())
        if due != float("inf"):
            self.set_in(due - time.monotonic())
