import asyncio
import time
from collections.abc import Callable

_LONGEST_SECONDS = 3600.0


class DeadlineBell:
    """One timer for many deadlines: it is not restarted for each of them, but computes the next one when it fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, check: Callable[[float], float]) -> None:
        """`check` gets time.monotonic(), handles what is due, and returns the next deadline; inf for none."""
        self._loop, self._check = loop, check
        self._timer: asyncio.TimerHandle | None = None
        self.is_set = False

    def start(self, seconds: float) -> None:
        """Fire after so long. A deadline added while the timer is set must not be earlier than this one."""
        self.cancel()
        self.is_set = True
        self._timer = self._loop.call_later(max(0.0, min(seconds, _LONGEST_SECONDS)), self._fire)

    def cancel(self) -> None:
        self.is_set = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_now(self) -> None:
        self.cancel()
        self._fire()

    def _fire(self) -> None:
        self.is_set, self._timer = False, None
        due = self._check(time.monotonic())
        if due != float("inf"):
            self.start(due - time.monotonic())
